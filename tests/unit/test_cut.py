"""Where history is cut, and what the preserved tail is: each sentence of the design's section 5."""

from typing import Any

import pytest

from foldahead.core.cut import current_cut, find_cut, tail_start
from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import Ledger, ledger_of
from foldahead.core.policy import Policy
from foldahead.core.record import Record
from foldahead.core.view import Active
from tests.histories import assistant, call, result, rounds, says, user

ANTHROPIC = get_dialect("anthropic")


def ledger(messages: list[Any], dialect: str = "anthropic") -> Ledger:
    return ledger_of(messages, get_dialect(dialect))


def tail(messages: list[Any], turns: int, most_tokens: int = 10**6, slope: float = 1.0) -> int:
    policy = Policy(preserve_recent_turns=turns, preserve_recent_tokens=most_tokens)
    return tail_start(ledger(messages), policy, slope)


def test_the_tail_is_the_last_turns_with_all_that_answers_them() -> None:
    history = rounds(5)  # 0 user, five rounds of two, then "Done." and a last word
    assert [tail(history, turns) for turns in (0, 1, 2, 3)] == [13, 11, 9, 7]


def test_with_fewer_turns_than_wanted_the_tail_is_all_behind_the_stable_prefix() -> None:
    assert tail(rounds(2), 50) == 0
    messages = [says("s", "system"), *rounds(2, dialect="openai")]
    assert tail_start(ledger(messages, "openai"), Policy(preserve_recent_turns=50)) == 1


def test_with_just_as_many_turns_what_came_before_the_first_is_no_tail() -> None:
    assert tail(rounds(2), 3) == 1


def test_a_tail_that_is_too_long_gives_up_whole_oldest_turns() -> None:
    history = rounds(5, chars=3_500)  # about 1,000 tokens a round
    assert tail(history, 5, most_tokens=2_500) == 7
    assert tail(history, 5, most_tokens=1_500) == 9
    assert tail(history, 5, most_tokens=10_000) == 3


def test_the_last_turn_is_never_given_up() -> None:
    history = [user("a"), assistant("b"), user("c"), assistant(call()), user(result(content="x" * 50_000))]
    assert tail(history, 2, most_tokens=10) == 3
    assert tail(history, 2, most_tokens=0) == 3


def test_the_tails_limit_is_in_the_providers_tokens() -> None:
    history = rounds(5, chars=3_500)
    assert tail(history, 5, most_tokens=2_500, slope=2.0) == 9


def test_a_cut_inside_a_tool_cycle_slides_to_its_beginning() -> None:
    history = [user("a"), assistant("b"), user("c"), assistant(call("x"), call("y")), user(result("x"), result("y"))]
    assert find_cut(ledger(history), 4).end == 3


def test_a_cut_lies_behind_the_results_of_a_cycle_that_is_done() -> None:
    assert find_cut(ledger(rounds(3)), 4).end == 3
    assert find_cut(ledger(rounds(3)), 5).end == 5


def test_one_user_message_and_forty_tool_rounds_can_be_cut() -> None:
    history = rounds(40)[:-2]
    cut = find_cut(ledger(history), tail(history, 2))
    assert (cut.start, cut.end) == (0, 77)


def test_an_open_call_is_never_compacted() -> None:
    history = [*rounds(3), assistant(call("open"))]
    assert find_cut(ledger(history), len(history)).end == len(history) - 1


def test_a_dead_call_is_no_obstacle() -> None:
    history = [user("a"), assistant(call("dead")), user("never mind"), *rounds(2)[1:]]
    assert find_cut(ledger(history), tail(history, 1)).end == len(history) - 2


@pytest.mark.parametrize(
    ("messages", "at", "reason"),
    [
        (rounds(2), 0, "nothing_to_compact"),
        ([user("a")], 0, "nothing_to_compact"),
        ([assistant(call()), user(result()), assistant("b")], 1, "no_valid_boundary"),
    ],
    ids=["tail is everything", "one message", "inside the first cycle"],
)
def test_without_a_legal_cut_the_reason_is_said(messages: list[Any], at: int, reason: str) -> None:
    cut = find_cut(ledger(messages), at)
    assert (cut.found, cut.reason) == (False, reason)


def span(end: int, reason: str | None = None) -> Record:
    return Record(kind="swapped", start=0, end=end, head_start="", head_end="", message={}, reason=reason)


def test_a_later_summary_takes_the_earlier_in_or_begins_behind_it() -> None:
    account, active = ledger(rounds(5)), Active(spans=(span(5),))
    assert current_cut(account, Policy(), active, 9).start == 0
    assert current_cut(account, Policy(resummarise=False), active, 9).start == 5


def test_where_each_generation_keeps_its_summary_only_a_degraded_one_is_made_again() -> None:
    good, poor = (
        span(5),
        Record(kind="swapped", start=5, end=7, head_start="", head_end="", message={}, reason="extract"),
    )
    active = Active(spans=(good, poor))
    assert current_cut(ledger(rounds(5)), Policy(resummarise=False), active, 9).start == 5
