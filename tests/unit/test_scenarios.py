"""What happens over time, on a session with no server: the scenarios that need no processes.

The shapes are those of public reports on other systems; each test names the right behaviour.
"""

import copy
import json
import random
from typing import Any

import pytest

from foldahead.core.conversation import Conversation, Moment
from foldahead.core.decide import Decline, decide, request_for
from foldahead.core.dialects import get_dialect
from foldahead.core.policy import Policy
from foldahead.core.request import SummaryRequest
from foldahead.core.standing import Ready
from foldahead.testing import LocalSession, ScriptedSummarizer
from tests.fleet import MEANS, summary_for
from tests.histories import assistant, call, result, user
from tests.judging import faults_of

POLICY = Policy(threshold_tokens=1_000, hard_cap_tokens=6_000, preserve_recent_turns=2, min_span_tokens=1)
TALK = "They read files and fixed the importer."


def conversation(policy: Policy = POLICY) -> Conversation:
    return Conversation(get_dialect("anthropic"), policy)


def asked(talk: Conversation, history: list[Any], words: int = 5) -> Ready:
    """The summary that the servers would make of the agent's current cut, as it comes back later."""
    return summary_for(history, request_of(talk, history), "anthropic", words)


def request_of(talk: Conversation, history: list[Any]) -> SummaryRequest:
    talk.observe(history)
    standing = talk.standing()
    assert standing.offer is not None
    return request_for(standing, standing.offer, "w", talk.policy, MEANS)


def turns(count: int, first: int = 0, chars: int = 300) -> list[Any]:
    return [
        message
        for at in range(first, first + count)
        for message in (
            assistant(f"Step {at}.", call(f"c{at}", path=f"{at}.py")),
            user(result(f"c{at}", f"r{at} " + "x" * chars)),
        )
    ]


# 1
def test_messages_that_arrive_while_a_summary_is_written_follow_it_unchanged() -> None:
    talk, history = conversation(), [user("go"), *turns(14)]
    ready = asked(talk, history)
    later = [assistant("A thought."), user("Message 21.")]
    history += later
    talk.add_ready(ready)
    view = talk.view(history, Moment())
    assert talk.plan.outcome == "swapped"
    assert json.dumps(view[-len(later) :]) == json.dumps(later)
    assert json.dumps(view[1:]) == json.dumps(history[ready.end :])


# 1
def test_an_append_at_any_instant_around_the_commit_loses_and_doubles_nothing() -> None:
    chance = random.Random(7)
    base = [user("go"), *turns(12)]
    for _ in range(300):
        talk, history = conversation(), base[: 15 + 2 * chance.randrange(4)]
        ready = asked(talk, history)
        steps = ["append", "append", "ready", "view", "view"]
        chance.shuffle(steps)
        for step in [*steps, "view"]:
            match step:
                case "append":
                    history = [*history, *turns(1, first=len(history))]
                case "ready":
                    talk.add_ready(ready)
                case _:
                    view = talk.view(history, Moment())
                    kept = history[talk.active.end :]
                    assert view[len(view) - len(kept) :] == kept


# 2
def test_a_summary_of_what_the_agent_rewound_is_not_applied_and_stays_good_for_the_old_content() -> None:
    talk, history = conversation(), [user("go"), *turns(14)]
    ready = asked(talk, history)
    rewound = [*history[:5], user("No, another way."), *turns(14, first=50)]
    talk.add_ready(ready)
    view = talk.view(rewound, Moment())
    assert view is rewound
    assert talk.plan.reason == "not_ready"
    talk.view(history, Moment())
    assert talk.plan.outcome == "swapped"


# 3
def test_a_fork_takes_a_summary_only_of_what_it_shares() -> None:
    parent, history = conversation(), [user("go"), *turns(14)]
    ready = asked(parent, history)
    same, other = conversation(), conversation()
    same_fork = [*history[: ready.end], *turns(3, first=50)]
    other_fork = [*history[:9], *turns(11, first=50)]
    for talk, branch in ((parent, history), (same, same_fork), (other, other_fork)):
        talk.add_ready(ready)
        talk.view(branch, Moment())
    assert (parent.plan.outcome, same.plan.outcome, other.plan.outcome) == ("swapped", "swapped", "unchanged")


# 4
@pytest.mark.parametrize("replaced", [True, False], ids=["replaced in the list", "changed in place"])
def test_an_edited_message_is_noticed_at_the_swap(replaced: bool) -> None:
    talk, history = conversation(), copy.deepcopy([user("go"), *turns(14)])
    talk.add_ready(asked(talk, history))
    if replaced:
        history[2] = user(result("c0", "something else"))
    else:
        history[2]["content"][0]["content"] = "something else"
    assert talk.view(history, Moment()) is history
    assert talk.records == []


# 4
def test_a_moved_cache_breakpoint_is_no_edit() -> None:
    talk, history = conversation(), copy.deepcopy([user("go"), *turns(14)])
    talk.add_ready(asked(talk, history))
    history[2]["content"][0]["cache_control"] = {"type": "ephemeral"}
    talk.view(history, Moment())
    assert talk.plan.outcome == "swapped"


# 5
def test_of_two_overlapping_compactions_the_newer_stands_whichever_ends_last() -> None:
    talk, history = conversation(), [user("go"), *turns(14)]
    older = asked(talk, history)
    history += turns(2, first=20)
    newer = asked(talk, history)
    talk.add_ready(newer)
    talk.view(history, Moment())
    assert talk.plan.summary is newer
    talk.add_ready(older)
    talk.view([*history, *turns(1, first=40)], Moment())
    assert [span.cache_key for span in talk.active.spans] == [newer.cache_key]


# 6
def test_an_odd_count_starts_no_second_compaction() -> None:
    session = LocalSession(POLICY, summarize=ScriptedSummarizer(TALK))
    history = [user("go"), *turns(6)]
    session.view(history)
    session.publish(history, usage={"input_tokens": 3_000, "output_tokens": 10})
    before = len(session.records)
    for counted in (170_085, 39):
        history += turns(1, first=len(history))
        session.view(history)
        session.publish(history, usage={"input_tokens": counted, "output_tokens": 0})
    session.view([*history, *turns(1, first=len(history))])
    assert sum(record.stands_for_span for record in session.records[before:]) <= 1


# 7
def test_a_count_of_before_the_swap_arriving_again_wants_no_new_work() -> None:
    talk, history = conversation(), [user("go"), *turns(14)]
    talk.note_usage({"input_tokens": 3_000, "output_tokens": 0})
    talk.add_ready(asked(talk, history))
    talk.view(history, Moment())
    for counted in (3_000, 900):
        talk.note_usage({"input_tokens": counted, "output_tokens": 0})
        assert not talk.wants_work(talk.standing())


# 8
def test_the_same_state_asks_for_the_same_summary_in_every_process() -> None:
    history = [user("go"), *turns(14)]
    keys = {asked(conversation(), copy.deepcopy(history)).cache_key for _ in range(3)}
    grown_in_pieces = conversation()
    for length in (3, 9, 15):
        grown_in_pieces.view(history[:length], Moment())
    keys.add(asked(grown_in_pieces, history).cache_key)
    assert len(keys) == 1


# 9
def test_a_failed_compaction_is_tried_again_neither_never_nor_every_turn() -> None:
    class Overloaded(Exception):
        status_code = 529

    asked_for = ScriptedSummarizer(*[Overloaded()] * 3, TALK)
    session, history = LocalSession(POLICY, summarize=asked_for), [user("go"), *turns(6)]
    tries: list[int] = []
    for at in range(24):
        history += turns(1, first=20 + at, chars=60)
        session.view(history)
        session.publish(history)
        tries.append(len(asked_for.prompts))
    assert session.failures == ["adapter_error: Overloaded"] * 3
    assert tries[-1] >= 4
    assert any(tries[at] == tries[at + 1] for at in range(6))
    assert session.last_record is not None


# 10
def test_the_same_boundary_over_edited_messages_is_another_key() -> None:
    history = [user("go"), *turns(14)]
    edited = [user("go elsewhere"), *turns(14)]
    assert asked(conversation(), history).cache_key != asked(conversation(), edited).cache_key


# 11
@pytest.mark.parametrize("resummarise", [True, False])
def test_three_generations_keep_the_facts_and_stay_small(resummarise: bool) -> None:
    policy = Policy(
        threshold_tokens=2_000,
        hard_cap_tokens=9_000,
        preserve_recent_turns=2,
        min_span_tokens=1,
        resummarise=resummarise,
        target_ratio=1.0,
    )
    session, history, seen = LocalSession(policy), [user("Please work through the list.")], []
    for generation in range(3):
        history.append(user(f"Rule {generation}: never touch config/prod{generation}.yaml."))
        history += turns(10, first=100 * generation, chars=500)
        for length in range(len(history) - 18, len(history) + 1, 2):
            view = session.view(history[:length])
            assert faults_of(view, "anthropic") == []
            session.publish(history[:length])
        seen.append(len(json.dumps(session.view(history))))
    text = json.dumps(session.view(history))
    assert all(f"config/prod{generation}.yaml" in text for generation in range(3))
    assert seen[2] < 2 * seen[0] + 4_000
    assert all(text.count(f"r{at} x") <= 1 for at in (5, 105, 205))


# 12
def test_the_tail_is_there_on_the_turn_of_the_swap_and_on_the_next_two() -> None:
    talk, history = conversation(), [user("go"), *turns(14)]
    ready = asked(talk, history)
    talk.add_ready(ready)
    for _ in range(3):
        view = talk.view(history, Moment())
        assert view[2:] == history[ready.end :]
        history = [*history, *turns(1, first=len(history))]


# 19
def test_a_summary_that_the_session_outgrew_is_refreshed_ahead() -> None:
    talk, history = conversation(), [user("go"), *turns(6)]
    talk.add_ready(asked(talk, history))
    assert not talk.wants_work(talk.standing())
    history += turns(14, first=50)
    talk.observe(history)
    assert talk.wants_work(talk.standing())
    talk.view(history, Moment())
    assert (talk.plan.outcome, talk.plan.reason) == ("unchanged", "not_smaller")
    talk.add_ready(asked(talk, history))
    talk.view(history, Moment())
    assert talk.plan.outcome == "swapped"
    assert talk.plan.tokens_after <= POLICY.target_tokens


# 20
def test_after_two_compactions_without_effect_it_stops_until_the_session_has_grown() -> None:
    talk, history = conversation(), [user("go"), *turns(12)]
    for _ in range(2):
        history += turns(1, first=len(history), chars=30)
        talk.add_ready(asked(talk, history, words=2_000))
        talk.view(history, Moment())
        assert talk.plan.reason == "not_smaller"
    assert talk.stalled == 2
    history += turns(1, first=len(history), chars=30)
    talk.observe(history)
    stopped = decide(talk.standing(), "w", MEANS)
    assert isinstance(stopped, Decline)
    assert "no effect" in stopped.reason
    history += turns(60, first=len(history))
    talk.observe(history)
    assert "no effect" not in getattr(decide(talk.standing(), "w", MEANS), "reason", "")


# 20
def test_a_useless_summary_is_counted_once_however_often_it_is_looked_at() -> None:
    talk, history = conversation(), [user("go"), *turns(12)]
    talk.add_ready(asked(talk, history, words=2_000))
    for _ in range(5):
        talk.view(history, Moment())
    assert talk.stalled == 1
