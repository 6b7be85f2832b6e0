"""The mechanical index: exact references, in order of need, within a budget."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from foldahead.core.index import Index, listed, mechanical_index, unlisted
from foldahead.core.messages import Call, Message, Result, Text
from foldahead.core.text.entities import Entity, entities_in
from foldahead.core.tokens import estimate_text


def call(path: str) -> Message:
    return Message("assistant", (Call("1", "read_file", {"path": path}),))


def result(text: str) -> Message:
    return Message("user", (Result("1", (Text(text),)),))


def test_every_kind_of_reference_is_found() -> None:
    text = (
        "see https://example.com/a, src/importer.py:12, /etc/hosts.yaml, INV-20931, HAT118, "
        "gift_card_6276644, TypeError, E4012, a3b2c4d5e6f7, v1.2.3 and $1,250"
    )
    found = {entity.text for entity in entities_in(text)}
    wanted = {"https://example.com/a", "src/importer.py", "/etc/hosts.yaml", "INV-20931", "HAT118"}
    wanted |= {"gift_card_6276644", "TypeError", "E4012", "a3b2c4d5e6f7", "v1.2.3", "$1,250"}
    assert wanted <= found


REFERENCES = [
    "http://a.b/c",
    "src/importer.py",
    "/etc/x.yaml",
    "INV-20931",
    "KeyError",
    "deadbee1",
    "v1.2.3",
    "C:/x/y.md",
]
BEFORE = [
    "a word ",
    "Said: ",
    "end. ",
    "f(x)=",
    "<b>",
    "x*y|",
    "std::sort ",
    "snake_case ",
    "café ",
    "中 ",
    "12 ",
    "a" * 90 + " ",
]


@given(st.lists(st.sampled_from(BEFORE), max_size=12).map("".join), st.sampled_from(REFERENCES))
def test_a_reference_is_found_behind_any_words(before: str, reference: str) -> None:
    assert reference in {entity.text for entity in entities_in(before + reference)}


def test_what_stood_in_a_tool_call_comes_before_what_a_tool_printed() -> None:
    messages = [call("src/called.py"), *(result(f"printed_{at}.py") for at in range(200))]
    assert "src/called.py" in mechanical_index(messages, 20)


def test_a_listing_crowds_out_no_other_message() -> None:
    listing = " ".join(f"lib/file_{at}.py" for at in range(150))
    assert "INV-20931" in mechanical_index([result("ticket INV-20931"), result(listing)], 120)


def test_old_messages_are_not_looked_through_for_the_last_tokens() -> None:
    def never() -> list[Entity]:
        raise AssertionError

    index = Index()
    index.add([], never)
    for at in range(60):
        index.add([], partial(list, [Entity("file", f"src/a_folder_of_that_name/file_{at}.py")]))
    assert len(index.pick(61, 60)) == 5


def test_a_file_is_not_listed_again_by_its_last_part() -> None:
    text = mechanical_index([call("/home/me/src/importer.py"), result("src/importer.py and importer.py")], 200)
    assert text.count("importer.py") == 1


def test_the_users_constraints_come_with_it() -> None:
    messages = [Message("user", (Text("Never touch config/prod.yaml."),)), result("x " * 500)]
    assert '"Never touch config/prod.yaml."' in mechanical_index(messages, 300)


def test_a_secret_is_not_indexed() -> None:
    assert "hunter2pass" not in mechanical_index([result("postgres://svc:hunter2pass@db.example.com/x")], 300)


@given(st.lists(st.text(alphabet="abc/._-0123 XYZ", max_size=200), max_size=20), st.integers(0, 200))
def test_the_budget_is_kept(texts: list[str], budget_tokens: int) -> None:
    assert estimate_text(mechanical_index([result(text) for text in texts], budget_tokens)) <= budget_tokens + 1


def test_a_list_is_read_back_as_it_was_written() -> None:
    entities = [
        Entity("file", "a/b.py"),
        Entity("command", "git log, then"),
        Entity("id", "X1"),
        Entity("id", "X2"),
    ]
    assert unlisted(listed(entities)) == [entities[0], entities[1], *entities[2:]]


def test_an_earlier_summarys_references_keep_a_third_of_the_room() -> None:
    index = Index()
    index.add([Entity("file", f"new/file_{at}.py") for at in range(100)], list)
    picked = index.pick(1, 60, carried=[Entity("file", f"old/file_{at}.py") for at in range(100)])
    assert any(entity.text.startswith("old/") for entity in picked)
    assert any(entity.text.startswith("new/") for entity in picked)
