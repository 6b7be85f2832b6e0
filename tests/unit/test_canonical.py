"""The canonical form: the vectors of its page, and a defined result for every odd value."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from foldahead.core import canonical
from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import bodies_of, ledger_of
from foldahead.core.messages import Call, Message, Other, Text
from tests.histories import assistant, call, rounds, user

PAGE = (Path(__file__).parents[2] / "docs" / "canonical.md").read_text()
VECTORS = re.findall(r"^### (.+) \((\w+)\)\n\n```json\n(.+)\n```\n\n```text\n([0-9a-f]{64})\n```", PAGE, re.MULTILINE)


def nested(levels: int, core: Any = "core") -> Any:
    value: Any = core
    for _ in range(levels):
        value = {"in": [value]}
    return value


def looped() -> Any:
    """Types that name each other, as a schema has them whose references were put in place."""
    kinds: list[Any] = [{"type": "object", "properties": {}} for _ in range(40)]
    for kind in kinds:
        kind["properties"] |= {str(at): other for at, other in enumerate(kinds)}
    return {"schema": kinds[0]}


def body_of(arguments: Any) -> bytes:
    return canonical.encode(Message("assistant", (Call("0", "do", arguments),)))


def test_the_page_has_vectors() -> None:
    assert len(VECTORS) >= 6


@pytest.mark.parametrize(("what", "dialect", "messages", "head"), VECTORS, ids=[vector[0] for vector in VECTORS])
def test_a_vector_of_the_page_holds(what: str, dialect: str, messages: str, head: str) -> None:
    assert ledger_of(json.loads(messages), get_dialect(dialect)).head.hex() == head


def test_a_body_gives_its_message_back() -> None:
    message = Message("assistant", (Text("hi"), Call("0", "ls", {"b": 1, "a": None}), Other("new", {"x": [1.5, True]})))
    assert canonical.decode(canonical.encode(message)) == message


def test_the_order_of_keys_does_not_count() -> None:
    assert body_of({"a": 1, "b": 2}) == body_of({"b": 2, "a": 1})


@pytest.mark.parametrize(
    "odd",
    [
        *(
            "\ud83d",
            {"\udc00": 1},
            2**64,
            -(2**63) - 1,
            10**400,
            float("nan"),
            float("inf"),
            "\x00",
            {1, 2},
            {(1, 2): 3},
        ),
        *(nested(30), [nested(60), 10**5_000], nested(60, 10**5_000), looped()),
    ],
    ids=[
        *("surrogate", "surrogate key", "too large", "too small", "huge", "nan", "inf", "nul", "set", "tuple as a key"),
        *("nested", "huge beside deep", "huge in deep", "looped"),
    ],
)
def test_an_odd_value_has_a_defined_form_that_can_be_read_back(odd: Any) -> None:
    body = body_of({"value": odd})
    assert body == body_of({"value": odd})
    assert canonical.decode(body).role == "assistant"


def test_two_odd_values_that_differ_have_different_forms() -> None:
    values = ["\ud83d", "\ud83e", 2**64, 2**65, nested(60), nested(61), nested(5_000), nested(5_001)]
    assert len({body_of(value) for value in values}) == len(values)


@pytest.mark.parametrize("loops_in", ["dict", "list", "object"])
def test_a_value_that_holds_itself_stands_as_a_mark_where_it_does(loops_in: str) -> None:
    class Told:
        def to_dict(self) -> Any:
            return {"held": looping}

    looping: Any = {} if loops_in == "dict" else []
    if loops_in == "dict":
        looping["self"] = [looping]
    else:
        looping.append({"self": looping})
    value = Told() if loops_in == "object" else {"held": looping}
    assert body_of({"a": 1, "b": value}) == body_of({"a": 1, "b": {"held": "\ufffdloop"}})


def test_a_value_that_stands_twice_in_another_is_no_loop() -> None:
    shared = nested(60)
    assert body_of([shared, shared]) == body_of([nested(60), nested(60)])


def test_depth_is_judged_alike_however_deep_the_caller_stands() -> None:
    value = nested(200)

    def at_depth(levels: int) -> bytes:
        return body_of(value) if levels == 0 else at_depth(levels - 1)

    assert at_depth(0) == at_depth(sys.getrecursionlimit() // 2)


def test_any_object_counts_by_what_it_tells_of_itself() -> None:
    class Told:
        def to_dict(self) -> dict[str, int]:
            return {"a": 1}

    class Silent:
        def __repr__(self) -> str:
            return "Silent()"

    assert body_of({"x": Told()}) == body_of({"x": {"a": 1}})
    assert body_of({"x": Silent()}) == body_of({"x": "Silent()"})


def test_dialects_never_share_a_head() -> None:
    message = [{"role": "user", "content": "hi"}]
    heads = {name: ledger_of(message, get_dialect(name)).head for name in ("anthropic", "openai", "openai-strict")}
    assert heads["anthropic"] != heads["openai"] == heads["openai-strict"]


def test_a_head_names_every_message_before_it() -> None:
    history = rounds(4)
    heads = ledger_of(history, get_dialect("anthropic")).heads
    edited = [user("Please break it."), *history[1:]]
    other = ledger_of(edited, get_dialect("anthropic")).heads
    assert heads[0] == other[0]
    assert not set(heads[1:]) & set(other[1:])


def test_bodies_end_before_a_message_that_was_edited() -> None:
    history = rounds(3)
    ledger = ledger_of(history, get_dialect("anthropic"))
    history[3] = assistant("else", call("c1"))
    assert len(bodies_of(history, ledger, 0, len(ledger))) == 3
    assert bodies_of(history, ledger, 3, len(ledger)) == []


def test_text_that_utf8_cannot_hold_is_made_encodable() -> None:
    assert canonical.encodable("a\ud83db") == "a\ufffdb"
    assert canonical.encodable("plain \U0001f600") == "plain \U0001f600"
