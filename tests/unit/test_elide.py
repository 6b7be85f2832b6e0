"""Observation ageing: every rule of the second seed's section, in both dialects."""

import re
from typing import Any

import pytest
from msgspec import structs

from foldahead.core.conversation import Conversation, Moment
from foldahead.core.dialects import get_dialect
from foldahead.core.plan import Plan
from foldahead.core.policy import Policy
from foldahead.core.record import Record
from tests.histories import answers, assistant, call, calls, result, rounds, says, server_call, thinking, user

AGEING = Policy(
    age_observations=True,
    age_min_chars=500,
    age_reclaim_min=2_000,
    preserve_recent_turns=1,
    threshold_tokens=100_000,
    hard_cap_tokens=200_000,
)
BOTH = pytest.mark.parametrize("dialect", ["anthropic", "openai"])


def aged(history: list[Any], policy: Policy = AGEING, dialect: str = "anthropic") -> tuple[list[Any], Plan]:
    conversation = Conversation(get_dialect(dialect), policy)
    view = conversation.view(history, Moment())
    return view, conversation.plan


def stubbed(plan: Plan) -> list[int]:
    return sorted(int(place.partition("/")[0]) for record in plan.records for place in record.stubs or {})


def content_of(message: Any) -> str:
    content = message["content"]
    return content if isinstance(content, str) else content[0].get("content", content[0].get("text", ""))


def cycle(path: str, body: str, dialect: str = "anthropic") -> list[Any]:
    if dialect == "openai":
        return [calls(path, arguments=f'{{"path": "{path}"}}'), answers(path, body)]
    return [assistant(call(f"id-{path}-{len(body)}", path=path)), user(result(f"id-{path}-{len(body)}", body))]


@BOTH
def test_an_old_fat_result_becomes_a_stub_in_place_and_nothing_else_changes(dialect: str) -> None:
    history = rounds(6, chars=800, dialect=dialect)
    view, plan = aged(history, dialect=dialect)
    assert plan.outcome == "elided"
    assert len(view) == len(history)
    stub = "[elided by the harness: 809-char read_file result; re-run the call if you need it again]"
    assert content_of(view[2]) == stub
    changed = {at for at, message in enumerate(view) if message != history[at]}
    assert changed == set(stubbed(plan))


@BOTH
def test_what_has_too_little_behind_it_stays(dialect: str) -> None:
    """Seven rounds of some 810 characters: behind the fourth there are over 2,000, behind the fifth there are not."""
    _, plan = aged(rounds(7, chars=800, dialect=dialect), dialect=dialect)
    assert stubbed(plan) == [2, 4, 6, 8]


def test_a_small_result_stays() -> None:
    history = [user("go"), *cycle("small", "x" * 499), *cycle("fat", "y" * 501), *rounds(6, chars=800)[1:]]
    _, plan = aged(history)
    assert 2 not in stubbed(plan)
    assert 4 in stubbed(plan)


def test_the_recent_window_is_never_touched() -> None:
    history = rounds(6, chars=800)
    _, plan = aged(history, structs.replace(AGEING, preserve_recent_turns=5))
    assert max(stubbed(plan), default=0) < 6


def test_a_batch_that_is_too_small_waits() -> None:
    _, plan = aged(rounds(6, chars=800), structs.replace(AGEING, age_reclaim_min=3_500))
    assert (plan.outcome, plan.reason) == ("unchanged", "below_threshold")


def test_one_epoch_takes_the_whole_batch_and_the_next_is_a_long_way_off() -> None:
    conversation = Conversation(get_dialect("anthropic"), AGEING)
    history = rounds(6, chars=800)
    conversation.view(history, Moment())
    epochs = [conversation.plan.outcome]
    for at in range(6, 12):
        history += [assistant(call(f"n{at}", path=f"n{at}")), user(result(f"n{at}", "x" * 800))]
        conversation.view(history, Moment())
        epochs.append(conversation.plan.outcome)
    assert epochs[0] == "elided"
    assert 1 <= epochs[1:].count("elided") <= 3
    assert all(epochs[at : at + 2] != ["elided", "elided"] for at in range(len(epochs) - 1))


@BOTH
def test_of_a_repeated_call_the_newest_answer_is_protected_and_older_copies_go(dialect: str) -> None:
    first = says("go") if dialect == "openai" else user("go")
    history = [first, *cycle("same", "v0 " + "x" * 300, dialect), *cycle("same", "v1 " + "x" * 310, dialect)]
    history += [*cycle("same", "v2 " + "x" * 900, dialect)]
    for at in range(5):
        history += cycle(f"other{at}", "y" * 900, dialect)
    history += [assistant("ok"), user("next")] if dialect == "anthropic" else [says("ok", "assistant"), says("next")]
    _, plan = aged(history, dialect=dialect)
    assert {2, 4} <= set(stubbed(plan))
    assert 6 not in stubbed(plan)


def test_the_newest_answer_stays_protected_when_the_older_copies_are_gone() -> None:
    conversation = Conversation(get_dialect("anthropic"), AGEING)
    history = [user("go"), *cycle("same", "v0 " + "x" * 900), *cycle("same", "v1 " + "x" * 901)]
    for at in range(30):
        history += cycle(f"other{at}", "y" * 900)
        conversation.view(history, Moment())
    view = conversation.shown(history)
    assert content_of(view[2]).startswith("[elided")
    assert content_of(view[4]).startswith("v1")


def test_a_stub_is_not_stubbed_again() -> None:
    history = rounds(8, chars=800)
    view, _ = aged(history)
    again, _ = aged(view)
    assert all(len(re.findall("elided by the harness", content_of(message))) < 2 for message in again[1:-2:2])
    assert content_of(again[2]) == content_of(view[2])


def test_a_stub_is_never_longer_than_what_it_stands_for() -> None:
    history = [user("go"), *cycle("same", "ok"), *cycle("same", "ok!")]
    for at in range(6):
        history += cycle(f"other{at}", "y" * 900)
    _, plan = aged([*history, assistant("ok"), user("next")])
    assert 2 not in stubbed(plan)


def test_a_result_whose_call_is_gone_follows_the_ordinary_rules() -> None:
    history = [user(result("gone", "z" * 900)), *rounds(6, chars=800)[1:]]
    _, plan = aged(history)
    assert 0 not in stubbed(plan)  # it is mended instead: a result without call is no observation


def test_two_runs_of_one_conversation_give_the_same_bytes() -> None:
    assert aged(rounds(6, chars=800)) == aged(rounds(6, chars=800))


def test_over_the_trigger_stubs_alone_are_taken_when_they_are_enough() -> None:
    history = rounds(12, chars=1_500)
    enough = structs.replace(AGEING, threshold_tokens=2_500, hard_cap_tokens=50_000)
    _, plan = aged(history, enough)
    assert (plan.outcome, plan.tokens_after < 2_500 <= plan.tokens_before) == ("elided", True)


def test_over_the_trigger_stubs_that_are_not_enough_are_left_to_the_summary() -> None:
    history = rounds(12, chars=1_500)
    scarce = structs.replace(AGEING, threshold_tokens=300, hard_cap_tokens=50_000)
    _, plan = aged(history, scarce)
    assert (plan.outcome, plan.reason) == ("unchanged", "not_ready")


def test_a_callers_room_is_what_a_pass_aims_at() -> None:
    history = rounds(12, chars=1_500)
    conversation = Conversation(get_dialect("anthropic"), AGEING)
    conversation.view(history, Moment(target_tokens=2_600))
    assert conversation.plan.outcome == "elided"
    assert conversation.plan.tokens_after <= 2_600 < conversation.plan.tokens_before


def test_thinking_behind_a_stub_is_removed_where_it_is_bound_to_what_was_before() -> None:
    history = rounds(6, chars=800)
    history[-2] = assistant(thinking(), "Done.")
    view, plan = aged(history)
    assert view[-2] == assistant("Done.")
    assert [record.kind for record in plan.records] == ["elided", "thinking_removed"]


def test_results_of_server_tools_are_no_observations() -> None:
    fat = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"text": "x" * 5_000}]}
    history = [user("a"), assistant(server_call(), fat, "b"), *rounds(3, chars=900)]
    _, plan = aged(history)
    assert 1 not in stubbed(plan)


def test_off_by_default() -> None:
    _, plan = aged(rounds(30, chars=900), Policy())
    assert (plan.outcome, plan.records) == ("unchanged", ())


def test_a_record_of_elision_names_each_place() -> None:
    history = [user("go"), assistant(call("a", path="1"), call("b", path="2"))]
    history += [user(result("a", "x" * 900), result("b", "y" * 950)), *rounds(5, chars=900)[1:]]
    _, plan = aged(history)
    (record,) = (record for record in plan.records if record.kind == "elided")
    assert isinstance(record, Record)
    assert {"2", "2/1"} <= set(record.stubs or {})
