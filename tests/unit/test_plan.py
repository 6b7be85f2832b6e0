"""What the next view is to be: when a summary is taken, and the ways down."""

from typing import Any

import pytest
from msgspec import structs

from foldahead.core.conversation import Conversation, Moment
from foldahead.core.dialects import get_dialect
from foldahead.core.policy import Policy
from foldahead.core.standing import Ready
from foldahead.core.tokens import estimate_text
from foldahead.core.wrapper import wrap
from tests.histories import assistant, call, result, rounds, thinking, user
from tests.judging import faults_of

POLICY = Policy(threshold_tokens=1_000, hard_cap_tokens=4_000, preserve_recent_turns=1, min_span_tokens=1)


def conversation(policy: Policy = POLICY, dialect: str = "anthropic") -> Conversation:
    return Conversation(get_dialect(dialect), policy)


def summary_of(talk: Conversation, history: list[Any], end: int, text: str = "They worked.", key: str = "k") -> Ready:
    talk.observe(history)
    return Ready(
        cache_key=key,
        kind="text",
        model="m",
        start=0,
        end=end,
        head_end=talk.ledger.heads[end],
        text=text,
        summary_tokens=estimate_text(wrap(text, "m", end)),
    )


def shown(talk: Conversation, history: list[Any], **moment: Any) -> list[Any]:
    view = talk.view(history, Moment(**moment))
    assert faults_of(view, talk.dialect.name) == []
    return view


def test_below_the_threshold_the_history_itself_is_sent() -> None:
    talk, history = conversation(), rounds(3)
    talk.add_ready(summary_of(talk, history, 5))
    assert shown(talk, history) is history
    assert talk.plan.reason == "below_threshold"


def test_at_the_threshold_a_ready_summary_takes_the_place_of_its_span() -> None:
    talk, history = conversation(), rounds(10)
    talk.add_ready(summary_of(talk, history, 17))
    view = shown(talk, history)
    assert (talk.plan.outcome, len(view)) == ("swapped", len(history) - 16)
    assert view[1:] == history[17:]
    assert talk.plan.tokens_after < talk.plan.tokens_before


def test_below_the_threshold_it_is_swapped_at_once_when_the_prompt_cache_is_cold() -> None:
    talk, history = conversation(), rounds(5)
    talk.add_ready(summary_of(talk, history, 9))
    assert shown(talk, history) is history
    shown(talk, history, cold=True)
    assert talk.plan.outcome == "swapped"


def test_below_the_hard_cap_nothing_replaces_what_is_not_ready() -> None:
    talk, history = conversation(), rounds(12)
    assert shown(talk, history) is history
    assert talk.plan.reason == "not_ready"


def test_a_summary_that_would_not_get_under_the_target_is_not_taken() -> None:
    talk, history = conversation(), rounds(10)
    talk.add_ready(summary_of(talk, history, 3))
    assert shown(talk, history) is history
    assert talk.plan.reason == "not_smaller"
    assert talk.plan.target_tokens == POLICY.target_tokens < talk.plan.least_tokens < talk.plan.tokens_before


def test_a_summary_of_another_history_is_not_taken() -> None:
    talk, history = conversation(), rounds(10)
    foreign = summary_of(conversation(), [user("else"), *history[1:]], 17)
    talk.add_ready(foreign)
    assert shown(talk, history) is history
    assert talk.plan.reason == "not_ready"


def test_a_summary_that_reaches_into_the_tail_is_not_taken() -> None:
    talk, history = conversation(), rounds(10)
    talk.add_ready(summary_of(talk, history, len(history) - 1))
    assert shown(talk, history) is history


def test_of_several_the_one_that_leaves_least_is_taken() -> None:
    talk, history = conversation(), rounds(10)
    talk.add_ready(summary_of(talk, history, 17, key="short"))
    talk.add_ready(summary_of(talk, history, 21, key="long"))
    shown(talk, history)
    assert talk.plan.summary is not None
    assert talk.plan.summary.cache_key == "long"


def test_nothing_is_compacted_while_the_last_message_waits_for_a_result() -> None:
    talk, history = conversation(), [*rounds(10), assistant(call("open"))]
    talk.add_ready(summary_of(talk, history, 17))
    assert talk.view(history, Moment()) is history
    assert talk.plan.reason == "open_call"


def test_a_swap_waits_while_a_tool_turn_with_thinking_is_open() -> None:
    talk = conversation()
    history = [*rounds(10), assistant(thinking(), call("t")), user(result("t"))]
    talk.add_ready(summary_of(talk, history, 17))
    assert shown(talk, history) is history
    assert talk.plan.reason == "open_thinking_turn"
    history += [assistant("Read."), user("and?")]
    shown(talk, history)
    assert talk.plan.outcome == "swapped"


def test_the_hard_cap_does_not_wait_for_thinking() -> None:
    talk = conversation()
    history = [*rounds(40), assistant(thinking(), call("t")), user(result("t"))]
    talk.add_ready(summary_of(talk, history, 77))
    view = shown(talk, history)
    assert talk.plan.outcome == "swapped"
    assert "thinking" not in str(view)


@pytest.mark.parametrize(
    ("model", "tail_thinking", "kept"),
    [
        ("claude-haiku-5-5", "auto", False),
        ("a-model-nobody-knows", "auto", False),
        ("", "auto", False),
        ("claude-haiku-4-5", "auto", True),
        ("claude-haiku-4-5", "strip", False),
        ("claude-haiku-5-5", "keep", True),
        ("claude-haiku-5-5", "drop_block", True),
    ],
)
def test_thinking_in_the_tail_is_whole_or_absent_as_the_model_wants(model: str, tail_thinking: Any, kept: bool) -> None:
    talk = conversation(structs.replace(POLICY, tail_thinking=tail_thinking))
    talk.model = model
    sealed = {"type": "redacted_thinking", "data": "eHg="}
    history = [*rounds(10), assistant(thinking(), sealed, "So it is."), user("Go on.")]
    talk.add_ready(summary_of(talk, history, 17))
    view = shown(talk, history)
    assert talk.plan.outcome == "swapped"
    assert view[-2] == (history[-2] if kept else assistant("So it is."))
    removed = [record.start for record in talk.records if record.kind == "thinking_removed"]
    assert removed == ([] if kept else [len(history) - 2])


def test_reasoning_of_a_provider_that_does_not_bind_it_is_kept() -> None:
    talk = conversation(dialect="openai")
    history = [*rounds(10, dialect="openai")]
    history[-2] = {**history[-2], "reasoning_content": "hm"}
    talk.add_ready(summary_of(talk, history, 17))
    assert shown(talk, history)[-2] == history[-2]


def test_thinking_made_after_a_swap_stays() -> None:
    talk, history = conversation(), rounds(10)
    talk.add_ready(summary_of(talk, history, 17))
    shown(talk, history)
    history += [assistant(thinking(), "After."), user("Go on.")]
    assert shown(talk, history)[-2] == history[-2]


# -- the ways down -------------------------------------------------------------------------------------------------


def test_at_the_hard_cap_a_summary_by_rules_stands_in() -> None:
    talk, history = conversation(), rounds(40)
    view = shown(talk, history)
    assert (talk.plan.outcome, talk.plan.reason, talk.degraded) == ("swapped", "extract", "extract")
    assert "model=extract" in str(view[0])
    assert talk.plan.tokens_after <= POLICY.target_tokens


def test_a_summary_by_rules_leaves_room_for_the_message_that_stays_beside_it() -> None:
    wishes = " ".join(f"Never do thing {at}." for at in range(80))
    talk, history = conversation(), [user(wishes), *rounds(40)[1:-2], assistant("Done.")]
    shown(talk, history)
    assert talk.plan.reason == "extract"


def test_where_the_policy_wants_it_the_oldest_are_left_out_until_the_target_is_met() -> None:
    talk, history = conversation(structs.replace(POLICY, on_hard_cap="truncate")), rounds(40)
    view = shown(talk, history)
    assert (talk.plan.outcome, talk.degraded) == ("truncated", "truncated")
    assert talk.plan.tokens_after <= POLICY.target_tokens
    end = talk.active.end
    assert talk.ledger.heads[end].hex() in str(view)
    marker_tokens = 90
    assert talk.ledger.span_tokens(end - 2, len(history) - 2) + marker_tokens > POLICY.target_tokens


def test_where_the_policy_wants_it_the_turn_goes_out_as_it_is() -> None:
    talk, history = conversation(structs.replace(POLICY, on_hard_cap="unchanged")), rounds(40)
    assert shown(talk, history) is history


def test_the_way_down_leaves_the_tail_alone() -> None:
    talk = conversation(structs.replace(POLICY, preserve_recent_turns=4))
    history = rounds(40)
    assert shown(talk, history)[-8:] == history[-8:]


@pytest.mark.parametrize("way", ["extract", "truncate"])
def test_a_session_heals_when_a_better_summary_of_the_same_span_comes(way: Any) -> None:
    talk, history = conversation(structs.replace(POLICY, on_hard_cap=way)), rounds(40)
    shown(talk, history)
    talk.add_ready(summary_of(talk, history, talk.active.end, "They worked. " * 30))
    view = shown(talk, history)
    assert (talk.plan.outcome, talk.degraded) == ("swapped", "")
    assert "They worked." in str(view[0])


def test_a_session_heals_by_a_summary_of_a_prefix() -> None:
    talk, history = conversation(), rounds(40)
    shown(talk, history)
    talk.add_ready(summary_of(talk, history, talk.active.end - 2))
    view = shown(talk, history)
    assert talk.degraded == ""
    assert history[talk.active.end] in view


def test_what_a_shorter_summary_uncovers_is_mended() -> None:
    talk, history = conversation(), rounds(40)
    good, history[80] = history[80], {"role": "user", "content": [*history[80]["content"], result("gone")]}
    shown(talk, history)
    assert (talk.active.end, talk.active.edits) == (81, ())
    talk.add_ready(summary_of(talk, history, 79))
    assert good in shown(talk, history)


def test_a_good_summary_is_never_truncated() -> None:
    talk, history = conversation(structs.replace(POLICY, on_hard_cap="truncate")), rounds(20)
    talk.add_ready(summary_of(talk, history, 37))
    shown(talk, history)
    history += rounds(40)[1:]
    shown(talk, history)
    assert [span.kind for span in talk.active.spans] == ["swapped", "truncated"]


def test_without_a_legal_cut_the_reason_is_said() -> None:
    first = assistant(*[call(f"c{at}") for at in range(3)])
    results = [user(result(f"c{at}", "x" * 8_000)) for at in range(2)]
    talk, history = conversation(structs.replace(POLICY, preserve_recent_turns=0)), [first, *results]
    assert talk.view(history, Moment()) is history
    assert talk.plan.reason == "no_valid_boundary"


# -- room ----------------------------------------------------------------------------------------------------------


def test_a_tail_that_does_not_fit_the_window_is_exhausted_and_nothing_is_thrown_away_for_it() -> None:
    talk = conversation(Policy(window_tokens=20_000))
    history = [*rounds(3)[:-1], user("x" * 60_000)]
    assert shown(talk, history) is history
    assert talk.plan.exhausted


def test_with_room_to_spare_nothing_is_exhausted() -> None:
    talk = conversation(Policy(window_tokens=200_000))
    shown(talk, rounds(3))
    assert not talk.plan.exhausted


def test_the_window_of_a_known_model_is_known() -> None:
    talk = conversation(Policy())
    talk.model = "claude-haiku-4-5"
    shown(talk, [user("x" * 800_000)])
    assert talk.plan.exhausted


def test_a_window_that_is_too_small_for_the_whole_brings_compaction_before_the_threshold() -> None:
    talk = conversation(Policy(window_tokens=12_000, preserve_recent_turns=1))
    history = rounds(40, chars=500)
    shown(talk, history)
    assert (talk.plan.outcome, talk.plan.exhausted) == ("swapped", False)


def test_system_and_tools_count_in_the_window_once() -> None:
    talk = conversation(Policy(window_tokens=20_000))
    history = rounds(3)
    talk.observe(history)
    talk.note_usage({"input_tokens": 11_000, "output_tokens": 0})
    shown(talk, history)
    assert not talk.plan.exhausted


def test_a_callers_room_is_compared_with_the_whole_view() -> None:
    talk, history = conversation(Policy()), rounds(20)
    talk.observe(history)
    whole = talk.ledger.tokens[-1]
    assert shown(talk, history, target_tokens=whole) is history
    shown(talk, history, target_tokens=whole - 1)
    assert talk.plan.outcome == "swapped"
    assert talk.plan.tokens_before == whole


def test_a_callers_counter_judges_in_its_own_tokens() -> None:
    talk, history = conversation(Policy()), rounds(20)
    shown(talk, history, target_tokens=20, counter=len)
    assert (talk.plan.tokens_before, talk.plan.tokens_after <= 20) == (len(history), True)


def test_a_room_that_cannot_be_met_is_said_to_be_exhausted() -> None:
    talk, history = conversation(Policy()), rounds(20)
    shown(talk, history, target_tokens=10)
    assert talk.plan.exhausted


def test_a_counter_without_a_room_counts_what_is_pending() -> None:
    talk, history = conversation(), rounds(10)
    shown(talk, history, counter=lambda messages: len(messages) * 1_000)
    assert talk.plan.tokens_before == (len(history) - 2) * 1_000


def test_a_provider_that_refuses_view_after_view_is_sent_the_history_until_it_has_grown() -> None:
    talk, history = conversation(), rounds(10)
    for turn, end in enumerate((13, 15, 17)):
        talk.add_ready(summary_of(talk, history, end, key=f"k{end}"))
        shown(talk, history)
        if talk.plan.outcome == "swapped":
            talk.reject(now_ms=turn + 1)

    assert talk.plan.reason == "refused_before"
    assert shown(talk, history) is history


def test_at_the_hard_cap_a_summary_that_misses_its_target_is_better_than_leaving_messages_out() -> None:
    policy = structs.replace(POLICY, on_hard_cap="truncate")
    talk, history = conversation(policy), rounds(60)
    talk.add_ready(summary_of(talk, history, 41))
    shown(talk, history)

    assert talk.plan.outcome == "swapped"
    assert talk.plan.tokens_after > policy.target_tokens
