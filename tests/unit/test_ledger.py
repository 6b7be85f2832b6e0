"""The running account of a history."""

from typing import Any

import pytest

from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import Ledger, ledger_of
from foldahead.core.observations import Observation
from foldahead.core.wrapper import wrap
from foldahead.errors import InvalidHistory
from tests.histories import answers, assistant, call, calls, result, rounds, says, system, thinking, user

ANTHROPIC = get_dialect("anthropic")
OPENAI = get_dialect("openai")


def test_a_refused_message_leaves_the_account_as_it_was() -> None:
    ledger = ledger_of(rounds(2), ANTHROPIC)
    before = (len(ledger), ledger.head, list(ledger.tokens), list(ledger.turn_starts))
    with pytest.raises(InvalidHistory):
        ledger.append({"role": "robot"})
    assert (len(ledger), ledger.head, ledger.tokens, ledger.turn_starts) == before


def test_turns_begin_at_the_assistants_runs() -> None:
    ledger = ledger_of([user("a"), assistant("b"), assistant("c"), user("d"), assistant("e")], ANTHROPIC)
    assert ledger.turn_starts == [1, 4]
    assert [ledger.turn_start_at(at) for at in range(5)] == [0, 1, 1, 1, 4]
    assert [ledger.turn_end_at(at) for at in range(5)] == [1, 4, 4, 4, 5]


def test_the_stable_prefix_ends_behind_the_leading_system_messages() -> None:
    messages = [says("s", "system"), says("d", "developer"), says("a"), says("later", "system")]
    ledger = ledger_of(messages, OPENAI)
    assert ledger.stable_prefix_end() == 2
    assert ledger.systems(2, 4) == [3]
    assert ledger_of([], OPENAI).stable_prefix_end() == 0


@pytest.mark.parametrize(
    ("message", "real"),
    [
        (user("hi"), True),
        (user(result(), "and a note"), True),
        (user(result()), False),
        (user(wrap("they talked", "m", 3)), False),
        (assistant("hi"), False),
        (system(), False),
    ],
    ids=["text", "result and note", "result", "our summary", "assistant", "system"],
)
def test_a_real_user_message_is_the_users_own(message: Any, real: bool) -> None:
    assert ledger_of([message], ANTHROPIC).traits[0].real_user is real


def test_the_last_real_user_message_is_found() -> None:
    ledger = ledger_of(rounds(3), ANTHROPIC)
    assert ledger.last_real_user(len(ledger)) == len(ledger) - 1
    assert ledger.last_real_user(len(ledger) - 1) == 0
    assert ledger.last_real_user(0) is None


def test_thinking_is_known_by_where_it_last_was() -> None:
    ledger = ledger_of([user("a"), assistant(thinking(), "b"), user("c"), assistant("d")], ANTHROPIC)
    assert ledger.thinks(0)
    assert ledger.thinks(1)
    assert not ledger.thinks(2)


def seen(ledger: Ledger) -> list[Observation]:
    return list(ledger.observations.values())


def test_results_are_observed_with_the_tool_and_the_length() -> None:
    (found,) = seen(ledger_of([assistant(call(name="ls")), user(result(content="x" * 100))], ANTHROPIC))
    assert (found.index, found.block, found.tool, found.chars) == (1, 0, "ls", 100)


def test_the_same_call_has_the_same_identity_however_it_is_written() -> None:
    spellings = ['{"path": "a", "n": 1}', '{"n":1,"path":"a"}', '{"path": "b", "n": 1}', "not json"]
    messages = [message for text in spellings for message in (calls("x", arguments=text), answers("x"))]
    first, second, third, fourth = seen(ledger_of(messages, OPENAI))
    assert first.identity == second.identity
    assert len({first.identity, third.identity, fourth.identity}) == 3


def test_a_result_whose_call_is_gone_has_no_identity() -> None:
    (found,) = seen(ledger_of([user(result())], ANTHROPIC))
    assert (found.tool, found.identity) == ("tool", b"")


def test_a_stub_is_no_observation() -> None:
    stub = "[elided by the harness: 900-char ls result; re-run the call if you need it again]"
    assert seen(ledger_of([assistant(call()), user(result(content=stub))], ANTHROPIC)) == []
