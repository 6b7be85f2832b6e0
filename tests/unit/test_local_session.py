"""The session for users' tests: no Redis, no thread, no clock."""

from typing import Any

import pytest
from msgspec import structs

from foldahead.core.policy import Policy
from foldahead.testing import LocalSession, ScriptedSummarizer
from tests.histories import assistant, call, result, rounds, system, text, thinking, user
from tests.judging import faults_of

POLICY = Policy(threshold_tokens=1_000, hard_cap_tokens=6_000, preserve_recent_turns=2, min_span_tokens=1)


def play(session: LocalSession, history: list[Any], rounds_: int, chars: int = 300) -> list[int]:
    """Play tool rounds; the turns at which a summary was swapped in."""
    swaps: list[int] = []
    for at in range(rounds_):
        view = session.view(history)
        assert faults_of(view, "anthropic") == []
        if session.plan.outcome == "swapped":
            swaps.append(at)
        history += [assistant(call(f"p{at}", path=f"{at}")), user(result(f"p{at}", "x" * chars))]
        session.publish(history)
    return swaps


def test_a_summary_is_ready_before_it_is_needed() -> None:
    session = LocalSession(POLICY, summarize=ScriptedSummarizer("They read files."))
    swaps = play(session, [user("go")], 30)
    assert swaps
    assert session.failures == []
    assert session.last_record is not None
    assert session.last_record.cache_key


def test_it_is_ready_so_many_turns_after_it_was_asked_for() -> None:
    at_once = play(LocalSession(POLICY, summarize=ScriptedSummarizer("Short.")), [user("go")], 30)
    later = play(LocalSession(POLICY, summarize=ScriptedSummarizer("Short."), delay_turns=3), [user("go")], 30)
    assert later[0] >= at_once[0]


def test_a_later_summary_folds_the_earlier_in() -> None:
    summarize = ScriptedSummarizer("The first part.", "Both parts.")
    play(LocalSession(POLICY, summarize=summarize), [user("go")], 60)
    assert len(summarize.prompts) >= 2
    assert "The first part." in summarize.prompts[1]


def test_a_refused_view_is_given_back() -> None:
    session, history = LocalSession(POLICY, summarize=ScriptedSummarizer("Short.")), [user("go")]
    play(session, history, 20)
    assert session.last_record is not None
    session.rejected(ValueError("400"))
    assert session.view(history) is history


def test_a_pinned_message_is_kept() -> None:
    session, history = LocalSession(POLICY, summarize=ScriptedSummarizer("Short.")), [user("the rule"), *rounds(2)]
    session.view(history)
    session.pin(history[0])
    play(session, history, 20)
    assert session.view(history)[0] == history[0]


def test_a_request_shares_the_breakpoints_with_system_and_tools() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    session, history = LocalSession(POLICY, summarize=ScriptedSummarizer("Short.")), [user("go")]
    play(session, history, 20)
    history += [user({**text(str(at)), **mark}) for at in range(4)]
    request = session.request(
        model="m", messages=history, system=[{**text("s"), **mark}], tools=[{"name": "t", **mark}]
    )
    assert str(request["messages"]).count("cache_control") == 2
    assert request["system"] == [{**text("s"), **mark}]


def test_a_request_asks_the_provider_to_drop_what_no_longer_fits_where_the_policy_says_so() -> None:
    policy = structs.replace(POLICY, tail_thinking="drop_block")
    session, history = LocalSession(policy, summarize=ScriptedSummarizer("Short.")), [user("go")]
    play(session, history, 20)
    history += [assistant(thinking(), "So."), user("ok")]
    request = session.request(model="m", messages=history, thinking={"type": "adaptive"}, betas=["a"])
    assert request["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert request["betas"] == ["a", "thinking-binding-controls-2026-08-01"]


def test_a_request_that_needs_nothing_is_left_alone() -> None:
    history = [user("go"), system()]
    request = LocalSession().request(model="m", messages=history, max_tokens=5)
    assert request == {"model": "m", "messages": history, "max_tokens": 5}
    assert request["messages"] is history


def test_a_summarizer_needs_an_answer() -> None:
    with pytest.raises(ValueError, match="expected at least one answer"):
        ScriptedSummarizer()
