"""Building views: what stands where, and what each provider wants of it."""

from typing import Any

import pytest

from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import Ledger, ledger_of
from foldahead.core.pins import pin_records, pins_of
from foldahead.core.record import Record
from foldahead.core.view import Active, active_records, build_view
from tests.histories import (
    answers,
    assistant,
    call,
    calls,
    picture,
    result,
    rounds,
    says,
    server_call,
    server_result,
    system,
    text,
    thinking,
    user,
)
from tests.judging import faults_of

ACKNOWLEDGED = assistant("Understood.")
SUMMARY = user("the summary")


def account(history: list[Any], dialect: str = "anthropic") -> Ledger:
    return ledger_of(history, get_dialect(dialect))


def record(ledger: Ledger, kind: Any, start: int, end: int, **more: Any) -> Record:
    heads = {"head_start": ledger.heads[start].hex(), "head_end": ledger.heads[end].hex()}
    return Record(kind=kind, start=start, end=end, **heads, **more)


def viewed(
    history: list[Any], start: int, end: int, dialect: str = "anthropic", pinned: tuple[int, ...] = (), **more: Any
) -> list[Any]:
    ledger = account(history, dialect)
    message = more.pop("message", SUMMARY if dialect == "anthropic" else says("the summary"))
    span = record(ledger, "swapped", start, end, message=message, cache_key="k", **more)
    records = [span, *pin_records(ledger, pins_of(ledger, start, end, frozenset(pinned)), span.mark, 0)]
    return build_view(history, active_records(records, ledger), ledger.dialect)


def test_one_summary_stands_for_its_span_and_all_else_follows() -> None:
    history = rounds(3)
    assert viewed(history, 0, 5) == [SUMMARY, *history[5:]]


def test_the_stable_prefix_stays_ahead() -> None:
    history = [says("s", "system"), *rounds(3, dialect="openai")]
    assert viewed(history, 1, 6, "openai") == [history[0], says("the summary"), *history[6:]]


def test_pins_stand_ahead_of_the_summary_in_their_order() -> None:
    history = [user("one"), assistant("a"), user("two"), assistant("b"), user("three"), assistant("c"), user("four")]
    assert viewed(history, 0, 5, pinned=(0, 2)) == [history[0], history[2], SUMMARY, *history[5:]]


def test_a_pin_takes_its_tool_cycle_along_behind_a_summary_that_opens() -> None:
    history = rounds(3)
    assert viewed(history, 0, 5, pinned=(2,)) == [SUMMARY, history[1], history[2], *history[5:]]


def test_a_pinned_cycle_stands_ahead_where_the_prefix_speaks_first() -> None:
    history = [says("s", "system"), *rounds(3, dialect="openai")]
    assert viewed(history, 1, 6, "openai", pinned=(3,))[1:4] == [history[2], history[3], says("the summary")]


def test_behind_a_greeting_a_strict_provider_still_hears_the_user_first() -> None:
    history = [says("s", "system"), says("Hello!", "assistant"), *rounds(2, dialect="openai")]
    ledger = account(history, "openai-strict")
    stub = record(ledger, "elided", 4, 5, stubs={"4": "[gone]"})
    view = build_view(history, active_records([stub], ledger), ledger.dialect)
    assert [message["role"] for message in view[:4]] == ["system", "user", "assistant", "user"]


def test_behind_a_system_prefix_a_strict_provider_still_hears_the_user_first() -> None:
    history = [says("s", "system"), *rounds(3, dialect="openai")]
    view = viewed(history, 1, 6, "openai-strict", pinned=(3,))
    assert [message["role"] for message in view[:3]] == ["system", "user", "assistant"]


@pytest.mark.parametrize(
    "harness",
    ["<system-reminder>the list is empty</system-reminder>", "[Request interrupted by user]", "<task-notification>x"],
)
def test_a_word_of_the_harness_in_the_tail_is_none_of_the_users(harness: str) -> None:
    history = [user("Never touch prod."), *rounds(3)[1:-1], user(harness)]
    ledger = ledger_of(history, get_dialect("anthropic"))
    assert pins_of(ledger, 0, len(history) - 1, frozenset()) == {0: "last_user"}
    assert pins_of(ledger_of([user(harness)], ledger.dialect), 0, 1, frozenset()) == {0: "last_user"}
    shown = [user("Never touch prod."), *rounds(3)[1:-1], user(text(harness), picture())]
    assert pins_of(ledger_of(shown, ledger.dialect), 0, len(shown) - 1, frozenset()) == {}


def test_the_last_real_user_message_is_pinned_when_the_tail_has_none() -> None:
    history = rounds(4)[:-2]
    assert viewed(history, 0, 5) == [history[0], SUMMARY, *history[5:]]


def test_a_system_message_of_the_span_is_pinned_where_the_provider_takes_it() -> None:
    history = [user("a"), system("be brief"), assistant("b"), user("c"), assistant("d"), user("e")]
    assert viewed(history, 0, 4) == [SUMMARY, system("be brief"), *history[4:]]
    view = viewed(history, 0, 3)
    assert view == [SUMMARY, system("be brief"), ACKNOWLEDGED, *history[3:]]
    assert faults_of(view, "anthropic") == []


def test_two_system_messages_of_a_span_are_both_taken() -> None:
    history = [user("a"), system("one"), assistant("b"), user("c"), system("two"), assistant("d"), user("e")]
    view = viewed(history, 0, 6, pinned=(0,))
    assert faults_of(view, "anthropic") == []
    assert [message for message in view if message["role"] == "system"] == [history[1], history[4]]


def test_a_system_message_stays_right_behind_a_tool_of_the_providers_that_is_at_work() -> None:
    history = [user("a"), assistant("b", server_call()), system(), assistant(server_result(), "c"), user("d")]
    assert viewed(history, 0, 4) == [SUMMARY, *history[1:]]


def test_a_system_message_right_behind_the_span_still_follows_a_users() -> None:
    history = [user("a"), assistant("b"), user("c"), system("one"), assistant("d"), user("e")]
    view = viewed(history, 0, 3, pinned=(1,))
    assert faults_of(view, "anthropic") == []


def test_a_view_of_pins_alone_still_asks_the_model_to_answer() -> None:
    history = [user("a"), assistant("b"), user("c")]
    assert viewed(history, 0, 3, pinned=(1,)) == [SUMMARY, history[1], history[2]]
    assert viewed(history[:2], 0, 2, pinned=(1,))[-1]["role"] == "user"


def test_a_strict_provider_gets_roles_that_alternate() -> None:
    history = [says("a"), says("b", "assistant"), says("c"), says("d", "assistant"), says("e")]
    assert [message["role"] for message in viewed(history, 0, 2, "openai-strict")] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert viewed(history, 0, 2, "openai")[1] == history[2]


def test_a_strict_provider_gets_no_users_message_right_behind_a_tools() -> None:
    history = [says("a"), calls("x"), answers("x"), says("b"), says("c", "assistant"), says("d")]
    view = viewed(history, 0, 4, "openai-strict", pinned=(0, 2))
    assert view == [*history[:3], says("Understood.", "assistant"), says("the summary"), *history[4:]]
    behind = [*history[:3], says("be brief", "system"), says("b"), says("c", "assistant"), says("d")]
    assert viewed(behind, 0, 1, "openai-strict")[4] == says("Understood.", "assistant")


def test_generations_stand_one_behind_the_other() -> None:
    history = rounds(5)
    ledger = account(history)
    first = record(ledger, "swapped", 0, 3, message=user("first"), cache_key="a")
    second = record(ledger, "swapped", 3, 7, message=user("second"), cache_key="b")
    view = build_view(history, active_records([second, first], ledger), ledger.dialect)
    assert view == [user("first"), user("second"), *history[7:]]


def test_a_later_span_takes_the_place_of_those_it_overlaps() -> None:
    history = rounds(5)
    ledger = account(history)
    records = [
        record(ledger, "swapped", 0, 3, message=user("first"), cache_key="a"),
        record(ledger, "swapped", 0, 7, message=user("both"), cache_key="b"),
    ]
    assert build_view(history, active_records(records, ledger), ledger.dialect) == [user("both"), *history[7:]]


def test_a_better_summary_of_a_prefix_brings_the_rest_back() -> None:
    history = rounds(5)
    ledger = account(history)
    records = [
        record(ledger, "truncated", 0, 7, message=user("left out"), reason="truncated"),
        record(ledger, "swapped", 0, 3, message=user("healed"), cache_key="b"),
    ]
    active = active_records(records, ledger)
    assert build_view(history, active, ledger.dialect) == [user("healed"), *history[3:]]
    assert not active.degraded


def test_records_of_another_history_do_not_count() -> None:
    history = rounds(3)
    span = record(account([user("else"), *history[1:]]), "swapped", 0, 3, message=SUMMARY, cache_key="k")
    assert active_records([span], account(history)) == Active()
    assert active_records([span], account(history[:2])) == Active()


def test_what_was_withdrawn_counts_no_more_and_is_named() -> None:
    history = rounds(3)
    ledger = account(history)
    records = [
        record(ledger, "swapped", 0, 5, message=SUMMARY, cache_key="k"),
        record(ledger, "thinking_removed", 3, 4),
        record(ledger, "swapped", 0, 5, cache_key="k", reason="rejected"),
    ]
    active = active_records(records, ledger)
    assert (active.spans, active.edits, active.withdrawn) == ((), (), 5)
    assert active.refused == {"k"}


def test_a_summary_that_was_refused_stays_refused_on_a_branch_of_the_same_beginning() -> None:
    history = rounds(3)
    ledger = account(history)
    records = [
        record(ledger, "swapped", 0, 3, message=SUMMARY, cache_key="k"),
        record(ledger, "thinking_removed", 5, 6),
        record(ledger, "swapped", 0, 3, cache_key="k", reason="rejected"),
        record(ledger, "swapped", 0, 6, reason="rejected"),
    ]
    branch = account([*history[:4], user("another way")])
    assert active_records(records, branch).spans == ()


def test_edits_are_made_in_place_mends_first() -> None:
    history = [user("a"), assistant(thinking(), "b", call()), user(result(content="long")), assistant("c"), user("d")]
    ledger = account(history)
    records = [
        record(ledger, "thinking_removed", 1, 2),
        record(ledger, "elided", 2, 3, stubs={"2": "[gone]"}),
        record(ledger, "repaired", 3, 4, message=None),
    ]
    view = build_view(history, active_records(records, ledger), ledger.dialect)
    assert view == [user("a"), assistant("b", call()), user(result(content="[gone]")), user("d")]


def test_a_view_has_four_breakpoints_at_most_and_keeps_the_last() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    history = [*rounds(3), *[user({**text(str(at)), **mark}) for at in range(6)]]
    view = viewed(history, 0, 5)
    assert faults_of(view, "anthropic") == []
    assert "cache_control" in view[-1]["content"][0]


def test_the_history_is_never_changed_by_building() -> None:
    history = [user("a"), assistant(thinking(), call()), user(result()), assistant("c"), user("d")]
    copy = [user("a"), assistant(thinking(), call()), user(result()), assistant("c"), user("d")]
    viewed(history, 0, 3, pinned=(1,))
    assert history == copy


@pytest.mark.parametrize("end", [2, 3])
def test_results_in_separate_messages_are_pinned_together(end: int) -> None:
    history = [says("a"), calls("x", "y"), answers("x"), answers("y"), says("b", "assistant"), says("c")]
    ledger = account(history, "openai")
    assert list(pins_of(ledger, 0, 5, frozenset({end}))) == [1, 2, 3]


def test_pins_outside_a_span_are_no_concern_of_it() -> None:
    assert pins_of(account(rounds(3)), 0, 3, frozenset({6})) == {}
