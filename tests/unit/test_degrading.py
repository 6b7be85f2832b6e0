"""The ways down and back up, through a session without servers: what each rung says, healing after a restart."""

import json
from typing import Any

import msgspec
import pytest

from benchmarks.sessions import SilentCarrier
from foldahead import Policy, Session, wire
from foldahead.core.dialects import get_dialect
from foldahead.core.standing import Ready
from foldahead.core.tokens import estimate_text
from foldahead.core.wrapper import wrap
from tests.histories import assistant, call, result, rounds, user
from tests.judging import faults_of

POLICY = Policy(threshold_tokens=1_000, hard_cap_tokens=4_000, preserve_recent_turns=1, min_span_tokens=1)


class Agent:
    """A session whose link is silent; its outbox is read, and what servers have is handed to it."""

    def __init__(self, policy: Policy) -> None:
        self._carrier = SilentCarrier()
        self.session = Session("s", "acme", get_dialect("anthropic"), policy, self._carrier)

    @property
    def outbox(self) -> Any:
        assert self._carrier.outbox is not None
        return self._carrier.outbox

    def turn(self, history: list[Any]) -> list[Any]:
        self.session.publish(history)
        view = self.session.view(history)
        assert faults_of(view, "anthropic") == []
        return view

    def events(self) -> list[dict[str, Any]]:
        """What was told since the last look: type and payload."""
        told = [msgspec.json.decode(event) for event in self.outbox.take_events()]
        return [{"type": event["type"], **event["payload"]} for event in told]

    def restarted(self, history: list[Any], *ready: Ready) -> "Agent":
        """Another process of the same session: it hears the records, and what became ready meanwhile."""
        other = Agent(self.session.policy)
        other.session.publish(history)
        other.outbox.receive(wire.Answer(known=True, records=tuple(self.outbox.records()), ready=ready))
        return other

    def ready(self, end: int) -> Ready:
        """A good summary of the messages up to an index, as servers make it."""
        ledger = self.session._conversation.ledger
        text = "They worked through the list."
        return Ready(
            cache_key=f"{end:064x}",
            kind="text",
            model="m",
            start=0,
            end=end,
            head_end=ledger.heads[end],
            text=text,
            summary_tokens=estimate_text(wrap(text, "m", end)),
        )


def agent(**changes: Any) -> Agent:
    return Agent(msgspec.structs.replace(POLICY, **changes))


def test_a_summary_by_rules_at_the_hard_cap_is_told_as_a_degraded_swap() -> None:
    one, history = agent(), rounds(40)
    one.turn(history)
    told = one.events()
    assert [(event["type"], event.get("summary_kind")) for event in told] == [("session.swapped", "extract")]
    assert told[0]["tokens_after"] < told[0]["tokens_before"]


def test_a_truncation_is_told_with_the_seeds_payload() -> None:
    one, history = agent(on_hard_cap="truncate"), rounds(40)
    one.turn(history)
    end = one.session.records[-1].end
    truncated, failed = one.events()
    assert truncated["type"] == "session.truncated"
    assert failed == {
        "type": "session.compaction_failed",
        "session_id": "s",
        "turn_id": "41",
        "watermark_before": 0,
        "span_message_count": end,
        "failure_mode": "adapter_error",
        "truncated_message_count": end,
    }


def test_a_history_without_a_legal_cut_is_told_with_the_seeds_payload() -> None:
    first = assistant(*[call(f"c{at}") for at in range(3)])
    history = [first, *[user(result(f"c{at}", "x" * 8_000)) for at in range(2)]]
    one = agent(preserve_recent_turns=0)
    one.session.publish(history)
    assert one.session.view(history) is history
    (failed,) = [event for event in one.events() if event["type"] == "session.compaction_failed"]
    assert failed == {
        "type": "session.compaction_failed",
        "session_id": "s",
        "turn_id": "1",
        "watermark_before": 0,
        "span_message_count": len(history),
        "failure_mode": "no_valid_boundary",
    }


def test_a_policy_that_wants_no_way_down_sends_the_turn_as_it_is() -> None:
    one, history = agent(on_hard_cap="unchanged"), rounds(40)
    assert one.turn(history) is history
    assert one.events() == []


@pytest.mark.parametrize("way", ["extract", "truncate"])
@pytest.mark.parametrize("shorter_by", [0, 4])
def test_a_session_heals_after_a_restart_of_the_agent(way: Any, shorter_by: int) -> None:
    one, history = agent(on_hard_cap=way), rounds(40)
    one.turn(history)
    degraded = one.session.last_record
    assert degraded is not None
    degraded_end = degraded.end
    other = one.restarted(history, one.ready(degraded_end - shorter_by))
    view = other.turn(history)
    assert "They worked through the list." in json.dumps(view[0])
    assert history[degraded_end - shorter_by] in view
    healed = [event for event in other.events() if event["type"] == "session.healed"]
    assert [(event["healed_from"], event["watermark_after"]) for event in healed] == [
        ("truncated" if way == "truncate" else "extract", degraded_end - shorter_by)
    ]


@pytest.mark.parametrize("way", ["extract", "truncate"])
def test_a_restarted_agent_with_nothing_ready_shows_what_the_first_one_showed(way: Any) -> None:
    one, history = agent(on_hard_cap=way), rounds(40)
    view = one.turn(history)
    assert json.dumps(one.restarted(history).turn(history)) == json.dumps(view)


def test_what_does_not_fit_even_so_is_said_to_be_exhausted() -> None:
    one, history = (
        agent(window_tokens=10_000, hard_cap_tokens=9_000),
        [*rounds(3), assistant("x" * 40_000), user("On.")],
    )
    one.turn(history)
    assert one.session.plan.exhausted


def test_in_shadow_mode_no_rung_is_taken_and_none_is_told() -> None:
    one, history = agent(mode="shadow"), rounds(40)
    assert one.turn(history) is history
    assert one.events() == []
    assert one.session.records == ()
