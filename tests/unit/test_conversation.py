"""One conversation on the agent's side: what it notices, keeps and gives back."""

import copy
import json
from typing import Any

import pytest
from msgspec import structs

from foldahead.core.conversation import Conversation, Moment
from foldahead.core.dialects import get_dialect
from foldahead.core.fingerprint import fingerprint
from foldahead.core.glancing import GlancingConversation
from foldahead.core.growth import Growth
from foldahead.core.policy import Policy
from foldahead.core.recorded import MOST_READY
from foldahead.core.standing import Ready
from foldahead.core.worth import worth_of
from foldahead.errors import InvalidHistory
from tests.histories import assistant, result, rounds, system, text, thinking, user
from tests.judging import faults_of
from tests.unit.test_canonical import looped, nested

POLICY = Policy(threshold_tokens=1_000, hard_cap_tokens=4_000, preserve_recent_turns=1, min_span_tokens=1)


def conversation(policy: Policy = POLICY) -> Conversation:
    return Conversation(get_dialect("anthropic"), policy)


def ready(talk: Conversation, history: list[Any], end: int, key: str = "k") -> Ready:
    talk.observe(history)
    return Ready(
        cache_key=key,
        kind="text",
        model="m",
        start=0,
        end=end,
        head_end=talk.ledger.heads[end],
        text="They worked.",
        summary_tokens=50,
    )


def swapped(policy: Policy = POLICY, count: int = 10) -> tuple[Conversation, list[Any]]:
    talk, history = conversation(policy), rounds(count)
    talk.add_ready(ready(talk, history, 17))
    talk.view(history, Moment())
    assert talk.plan.outcome == "swapped"
    return talk, history


def test_the_same_view_is_shown_until_something_happens() -> None:
    talk, history = swapped()
    first = talk.view(history, Moment())
    history += [assistant("On."), user("and?")]
    assert talk.view(history, Moment()) == [*first, *history[-2:]]


def test_a_history_that_is_loaded_anew_goes_on() -> None:
    talk, history = swapped()
    assert talk.observe(copy.deepcopy(history))
    assert talk.view(copy.deepcopy(history), Moment())[1:] == history[17:]


def test_a_history_read_back_with_other_breakpoints_goes_on() -> None:
    talk, history = swapped()
    marked = copy.deepcopy(history)
    marked[-1]["content"][0]["cache_control"] = {"type": "ephemeral"}
    marked[0]["content"] = marked[0]["content"][0]["text"]
    assert talk.observe(marked)
    assert talk.view(marked, Moment())[-1] == marked[-1]


def test_an_edit_of_what_a_summary_stands_for_gives_the_history_back() -> None:
    talk, history = swapped()
    history[4] = user(result("c1", "else"))
    assert talk.view(history, Moment()) is history


@pytest.mark.parametrize("at", [0, 4], ids=["at its head", "inside what a summary stands for"])
def test_a_history_that_is_loaded_anew_goes_on_however_deep_its_values_are(at: int) -> None:
    def history() -> list[Any]:
        odd = user(text("q"), {"type": "odd", "value": nested(5_000), "loop": looped()})
        return [*rounds(10)[:at], odd, *rounds(10)[at + 1 :]]

    talk, first = conversation(), history()
    talk.add_ready(ready(talk, first, 17))
    view = talk.view(first, Moment())
    assert talk.plan.outcome == "swapped"
    assert len(talk.view(history(), Moment())) == len(view)
    talk.pin(history()[at])


def test_a_glance_at_values_too_deep_to_be_compared_leaves_the_turn_to_a_closer_look() -> None:
    def history() -> list[Any]:
        odd = assistant({"type": "odd", "value": nested(5_000), "loop": looped()}, "hm")
        return [*rounds(10)[:1], odd, user("x"), *rounds(10)[1:]]

    talk, first, again = GlancingConversation(get_dialect("anthropic"), POLICY), history(), history()
    talk.add_ready(ready(talk, first, 19))
    view = talk.view(first, Moment())
    assert talk.plan.outcome == "swapped"
    talk.prepare()
    again[0], again[-1] = first[0], first[-1]
    assert talk.glance([*again, user("more")], idle_s=0.0) is None
    assert len(talk.view([*again, user("more")], Moment())) == len(view) + 1


def test_a_message_that_cannot_be_read_is_named_and_can_be_taken_out() -> None:
    class Speechless:
        def to_dict(self) -> Any:
            raise ValueError("nothing to say")

    within: list[Any] = []
    within.append(result("c1", within))
    talk, history = conversation(), rounds(4)
    for odd in (user(*within), Speechless(), {"role": nested(5_000)}):
        with pytest.raises(InvalidHistory, match=rf"messages\[{len(history)}\]"):
            talk.view([*history, odd], Moment())
    assert talk.view([*history, user("Next.")], Moment())[-1] == user("Next.")


def test_a_shorter_history_is_another_branch_and_the_old_one_is_known_again() -> None:
    talk, history = swapped()
    assert talk.view(history[:5], Moment()) == history[:5]
    assert talk.view(history, Moment())[1:] == history[17:]


def test_a_message_that_is_none_is_refused_and_the_rest_is_kept() -> None:
    talk = conversation()
    with pytest.raises(InvalidHistory, match=r"messages\[1\].role"):
        talk.observe([user("a"), {"role": "robot"}])
    assert talk.observe([user("a"), assistant("b")])
    assert len(talk.ledger) == 2


def test_off_does_nothing_and_shadow_all_but_the_swap() -> None:
    for mode in ("off", "shadow"):
        talk, history = conversation(structs.replace(POLICY, mode=mode)), rounds(10)
        talk.add_ready(ready(talk, history, 17))
        assert talk.view(history, Moment()) is history
        assert talk.records == []
        assert talk.plan.outcome == ("swapped" if mode == "shadow" else "unchanged")


def test_a_refused_view_gives_the_history_back_and_its_summary_never_comes_again() -> None:
    talk, history = swapped()
    summary = ready(talk, history, 17)
    refused = talk.reject()
    assert refused is not None
    assert refused.cache_key == "k"
    assert talk.view(history, Moment()) is history
    talk.add_ready(summary)
    assert talk.view(history, Moment()) is history
    other = conversation()
    other.observe(history)
    other.replace_records(talk.records)
    other.add_ready(summary)
    assert other.view(history, Moment()) is history


def test_after_a_refusal_another_summary_may_be_shown() -> None:
    talk, history = swapped()
    talk.reject()
    talk.add_ready(ready(talk, history, 19, key="another"))
    talk.view(history, Moment())
    assert talk.plan.outcome == "swapped"


def test_what_stood_in_at_the_hard_cap_is_not_shown_again_either() -> None:
    talk, history = conversation(), rounds(40)
    first = talk.view(history, Moment())
    talk.reject()
    assert talk.view(history, Moment())[0] != first[0]


def test_refusing_a_view_that_is_the_history_changes_nothing() -> None:
    talk, history = conversation(), rounds(3)
    talk.view(history, Moment())
    assert talk.reject() is None
    assert talk.records == []


def test_what_was_refused_of_a_shorter_branch_breaks_no_pin_of_a_summary_on_a_longer_one() -> None:
    talk = conversation(structs.replace(POLICY, tail_thinking="strip"))
    history = rounds(10)
    for message in history[1:-2:2]:
        message["content"].insert(0, thinking())
    talk.add_ready(ready(talk, history, 17))
    talk.pin(history[5])
    longer = talk.view(history, Moment())
    assert thinking() not in longer[1]["content"]
    assert talk.view(history[:7], Moment()) != history[:7], "the thinking of the pinned message is gone on each branch"
    talk.reject()
    assert faults_of(talk.view(history, Moment()), "anthropic") == []
    assert talk.view(history, Moment()) == longer


def test_records_of_a_longer_history_count_as_soon_as_it_is_seen() -> None:
    talk, history = swapped()
    other = conversation()
    other.observe(history[:3])
    other.replace_records(talk.records)
    assert other.view(history[:3], Moment()) == history[:3]
    assert other.view(history, Moment()) == talk.view(history, Moment())


def test_another_processs_records_reveal_an_edit_in_place() -> None:
    first, history = conversation(), copy.deepcopy(rounds(10))
    first.observe(history)
    history[2]["content"][0]["content"] = "edited"
    second = conversation()
    second.add_ready(ready(second, history, 17))
    second.view(history, Moment())
    first.replace_records(second.records)
    assert first.view(history, Moment()) == second.view(history, Moment())


def test_the_ready_summaries_kept_are_those_of_this_branch() -> None:
    talk, history = conversation(), rounds(10)
    useful = ready(talk, history, 17)
    talk.add_ready(useful)
    for at in range(MOST_READY + 3):
        elsewhere = structs.replace(useful, cache_key=f"other{at}", head_end=b"x" * 32, end=19)
        talk.add_ready(elsewhere)
    assert len(talk.ready) == MOST_READY
    assert "k" in talk.ready


# -- pins ----------------------------------------------------------------------------------------------------------


def test_a_pinned_message_stays_in_every_later_view_in_every_process() -> None:
    talk, history = conversation(), [user("go"), *rounds(10)]
    talk.observe(history)
    talk.pin(history[1])
    talk.add_ready(ready(talk, history, 18))
    view = talk.view(history, Moment())
    assert view[0] == history[1]
    other = conversation()
    other.observe(history)
    other.replace_records(talk.records)
    assert other.view(history, Moment()) == view
    history += rounds(10)[1:]
    talk.add_ready(ready(talk, history, 36, key="next"))
    assert history[1] in talk.view(history, Moment())


def test_pins_of_the_policy_are_indices_or_a_function() -> None:
    by_index = structs.replace(POLICY, pinned=(0,))
    by_function = structs.replace(POLICY, pinned=lambda message: "Please" in str(message))
    for policy in (by_index, by_function):
        talk, history = swapped(policy)
        assert talk.view(history, Moment())[0] == history[0]


def test_a_message_that_is_not_there_cannot_be_pinned() -> None:
    talk = conversation()
    talk.observe(rounds(2))
    with pytest.raises(ValueError, match="pin: expected a message of the history last given"):
        talk.pin(user("who?"))


def test_system_messages_of_a_span_stay_through_every_generation() -> None:
    history = [user("go"), system("In French, please."), *rounds(10)[1:]]
    talk, other = conversation(), conversation()
    talk.add_ready(ready(talk, history, 18))
    talk.view(history, Moment())
    history += rounds(10)[1:]
    talk.add_ready(ready(talk, history, 36, key="next"))
    view = talk.view(history, Moment())
    assert system("In French, please.") in view
    assert faults_of(view, "anthropic", reused_ids=True) == []
    other.observe(history)
    other.replace_records(talk.records)
    assert json.dumps(other.shown(history)) == json.dumps(view)


# -- the small things it is made of --------------------------------------------------------------------------------


def test_a_fingerprint_covers_what_a_digest_leaves_out() -> None:
    message = user("hi")
    assert fingerprint(message) == fingerprint(copy.deepcopy(message))
    assert fingerprint(message) != fingerprint(user({**text("hi"), "cache_control": {"type": "ephemeral"}}))
    assert fingerprint(user("half \ud83d")) == fingerprint(user("half \ud83d"))


def test_growth_is_robust_to_one_huge_result_and_one_long_pause() -> None:
    growth = Growth()
    assert (growth.tokens_per_turn, growth.interval_s) == (0.0, 0.0)
    for tokens, seconds in [(900, 20.0), (1_100, 25.0), (400_000, 9_000.0), (1_000, None), (-3, 22.0)]:
        growth.note(tokens, seconds)
    assert (growth.tokens_per_turn, growth.interval_s) == (1_050.0, 23.5)


def test_the_worth_of_a_summary_is_plain_arithmetic() -> None:
    worth = worth_of(
        span_tokens=30_000,
        summary_tokens=5_000,
        tail_tokens=10_000,
        turns=20,
        agent_model="claude-sonnet-5-5",
        summary_model="",
    )
    assert worth.saved_a_turn_usd == pytest.approx(25_000 * 0.10 / 1e6)
    assert worth.once_usd == pytest.approx(15_000 * (2.50 - 0.10) / 1e6)
    assert worth.turns == pytest.approx(14.4)
    assert worth.pays
    assert "even after 14.4 turns, 20 turns expected" in worth.describe()


def test_what_saves_nothing_never_pays() -> None:
    worth = worth_of(span_tokens=100, summary_tokens=200, tail_tokens=0, turns=1, agent_model="", summary_model="")
    assert not worth.pays
    assert "even never" in worth.describe()
