"""A session that glances at a turn where it may, and one that reads each turn in full: nobody can tell them apart."""

import time
from typing import Any

import msgspec
from hypothesis import event, given, settings
from hypothesis import strategies as st

from benchmarks.sessions import SilentCarrier
from foldahead import Policy, Session, wire
from foldahead.core.decide import Start, decide
from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import ledger_of
from foldahead.core.record import Record
from foldahead.core.standing import Ready
from foldahead.core.view import Active
from tests.fleet import MEANS, as_json, check_validity, copied, summary_for
from tests.histories import Spoken, conversations
from tests.judging import faults_of
from tests.unit.test_properties import policies

MODELS = ("claude-opus-5-5", "claude-opus-4-5", "m", "")
MARK = {"type": "ephemeral"}
SYSTEMS = ("Be brief.", "Be long.", [{"type": "text", "text": "Be kind.", "cache_control": MARK}] * 2)
OVERRIDES = (b"", b'{"mode": "shadow"}', b'{"mode": "off"}', b'{"threshold_tokens": 300}')
HAPPENS = (
    *["a summary comes"] * 8,
    "another process takes a turn",
    "has another policy",
    "is overruled",
    "wants a view",
    "pins",
    "is refused",
    "is cold",
)
CHANGES = ("rewinds", "loads anew", "asks another way", "marks", "marks anew")
LIVELY = policies(thresholds=(250, 600, 1_500), ratios=(1.0,), starts=(0.2,))


@st.composite
def _policies(draw: Any) -> Policy:
    """Mostly such that turns are ordinary."""
    return msgspec.structs.replace(
        draw(LIVELY),
        age_observations=draw(st.sampled_from([False, False, False, True])),
        tail_thinking=draw(st.sampled_from(["auto", "auto", "strip", "keep", "drop_block"])),
        kind=draw(st.sampled_from(["text", "text", "text", "native"])),
        mode=draw(st.sampled_from([*["on"] * 8, "shadow", "off"])),
    )


class Glancing(Session):
    """A session as it is, in hands that can let time pass."""

    def cool(self) -> None:
        """The last request went out long ago."""
        self._requested_s -= 1e6

    def hear(self, answer: wire.Answer) -> None:
        self._outbox.receive(answer)

    def events(self) -> list[Any]:
        return [msgspec.json.decode(event)["payload"] for event in self._outbox.take_events()]

    def encoded_records(self) -> tuple[bytes, ...]:
        return tuple(self._outbox.records())

    @property
    def glanced(self) -> bool:
        return self._conversation.view_marks is not None


class Thorough(Glancing):
    """Takes no glance, and nothing that it hears before its next turn."""

    def hear(self, answer: wire.Answer) -> None:
        self._outbox.has_news = True
        super().hear(answer)

    def request(self, **kwargs: Any) -> dict[str, Any]:
        self._conversation.calm = None
        return super().request(**kwargs)

    def _turn(self, *args: Any, **kwargs: Any) -> list[Any]:
        self._conversation.calm = None
        return super()._turn(*args, **kwargs)


def _timeless(record: Record | None) -> Record | None:
    return None if record is None else msgspec.structs.replace(record, created_at_ms=0)


def _known(session: Session) -> list[Any]:
    """All that a session says of itself."""
    plan, standing = session.plan, msgspec.structs.replace(session.standing, interval_s=0.0)
    plan = msgspec.structs.replace(plan, records=(), repaired=(), active=Active())
    return [
        [_timeless(record) for record in session.records],
        _timeless(session.last_record),
        plan,
        standing,
        session.has_ready,
        session.mode,
    ]


class Twins:
    """Both, and what an agent, its provider, other processes and the link do to them."""

    def __init__(self, spoken: Spoken, policy: Policy) -> None:
        self.spoken, self.dialect = spoken, get_dialect(spoken.dialect)
        self.quick = Glancing("s", "acme", self.dialect, policy, SilentCarrier())
        self.full = Thorough("s", "acme", self.dialect, policy, SilentCarrier())
        self.history: list[Any] = []
        self.turn, self.overrides = 0, b""
        self.made: list[Ready] = []
        self.around: dict[str, Any] = {"model": MODELS[0], "system": SYSTEMS[0]}

    def answers(self, **what: Any) -> None:
        for session in (self.quick, self.full):
            session.hear(wire.Answer(known=True, overrides=self.overrides, **what))

    def grow(self) -> None:
        self.turn = min(self.turn + 1, len(self.spoken.requests))
        self.history.extend(copied(self.spoken.messages[len(self.history) : self.spoken.requests[self.turn - 1]]))

    def ask(self) -> None:
        history, before = self.history, as_json(self.history)
        mine, theirs = (session.request(**self.around, messages=history) for session in (self.quick, self.full))
        event(f"glanced: {self.quick.glanced}, as it is: {mine['messages'] is history}")
        assert as_json(history) == before, "the history was changed"
        assert (mine["messages"] is history) == (theirs["messages"] is history)
        assert as_json(mine) == as_json(theirs)
        if not faults_of(history, self.spoken.dialect, reused_ids=True):
            check_validity(history, mine["messages"], self.spoken.dialect, broken=False)

    def publish(self, used: int | None) -> None:
        at = len(self.history)
        if at < len(self.spoken.messages) and self.spoken.messages[at]["role"] == "assistant":
            self.history += copied([self.spoken.messages[at]])
        usage = {"input_tokens": used, "prompt_tokens": used} if used else None
        for session in (self.quick, self.full):
            session.publish(self.history, usage=usage)
        self.compare()
        self.servers_look()

    def compare(self) -> None:
        for mine, theirs in zip(_known(self.quick), _known(self.full), strict=True):
            assert mine == theirs
        mine, theirs = self.quick.events(), self.full.events()
        # A request that more messages followed before anybody read it has told of no boundary that it lacked.
        assert [told for told in theirs if told in mine or "failure_mode" not in told] == mine

    def servers_look(self) -> None:
        standing = self.full.standing
        heads = ledger_of(self.history, self.dialect).heads
        decision = decide(standing, "acme", MEANS)
        if isinstance(decision, Start) and standing.offer and heads[standing.offer.end] == standing.offer.head_end:
            self.made.append(summary_for(self.history, decision.request, self.spoken.dialect, 25))

    def another_process_takes_a_turn(self) -> None:
        other = Glancing("s", "acme", self.dialect, self.full.policy, SilentCarrier())
        history = copied(self.history)
        other.hear(wire.Answer(known=True, records=self.full.encoded_records(), ready=tuple(self.made)))
        other.publish(history)
        other.request(**self.around, messages=history)
        self.answers(records=other.encoded_records())

    def happens(self, what: str, data: st.DataObject) -> None:
        """What comes from outside, and what an agent asks of its session."""
        match what:
            case "pins" | "is refused" | "is cold":
                mine, theirs = (self.befalls(session, what) for session in (self.quick, self.full))
                assert mine == theirs
                time.sleep(0.002)  # refusals count by their time
            case "has another policy":
                self.quick.policy = self.full.policy = data.draw(_policies())
            case "is overruled":
                self.overrides = data.draw(st.sampled_from(OVERRIDES))
                self.answers()
            case "another process takes a turn":
                self.another_process_takes_a_turn()
            case "wants a view":
                room = data.draw(st.sampled_from([None, None, 300]))
                mine, theirs = (session.view(self.history, target_tokens=room) for session in (self.quick, self.full))
                assert as_json(mine) == as_json(theirs)
            case _ if self.made:
                self.answers(ready=(self.made.pop(),))
            case _:
                pass

    def changes(self, what: str, data: st.DataObject) -> None:
        """What an agent does to its history, and to what it asks with."""
        match what:
            case "rewinds":
                self.turn = max(1, self.turn - data.draw(st.integers(1, 3)))
                self.history = self.history[: self.spoken.requests[self.turn - 1]]
            case "loads anew":
                self.history = copied(self.history)
            case "asks another way":
                self.around = {
                    "model": data.draw(st.sampled_from(MODELS)),
                    "system": data.draw(st.sampled_from(SYSTEMS)),
                }
            case _ if self.spoken.dialect == "anthropic":
                self.move_breakpoints(anew=what == "marks anew")
            case _:
                pass

    def befalls(self, session: Glancing, what: str) -> str:
        """Returns what it raises: a message whose breakpoint has moved may not be found."""
        if what == "is refused":
            session.rejected(ValueError("no"))
        elif what == "is cold":
            session.cool()
        else:
            try:
                session.pin(self.history[0])
            except ValueError as error:
                return str(error)
        return ""

    def move_breakpoints(self, *, anew: bool) -> None:
        """To the user's last two messages: in place, or in copies of them."""
        blocks = [
            block for message in self.history if isinstance(message["content"], list) for block in message["content"]
        ]
        for block in blocks:
            block.pop("cache_control", None)
        places = [
            at
            for at, message in enumerate(self.history)
            if message["role"] == "user" and isinstance(message["content"], list)
        ]
        for at in places[-2:]:
            self.history[at] = copied([self.history[at]])[0] if anew else self.history[at]
            self.history[at]["content"][-1]["cache_control"] = MARK


def _take_turns(twins: Twins, data: st.DataObject) -> None:
    for _ in twins.spoken.requests:
        twins.grow()
        for _ in range(data.draw(st.integers(0, 2))):
            twins.happens(data.draw(st.sampled_from(HAPPENS)), data)
        if data.draw(st.integers(0, 3)) == 0:
            twins.changes(data.draw(st.sampled_from(CHANGES)), data)
        for _ in range(data.draw(st.sampled_from([1, 1, 2, 3]))):
            twins.ask()
        if data.draw(st.integers(0, 4)):
            twins.publish(data.draw(st.sampled_from([None, None, None, 900, 9_000])))
    twins.publish(None)


@given(conversations(most_turns=14), _policies(), st.data())
@settings(max_examples=settings().max_examples // 3)
def test_a_session_that_glances_tells_and_sends_what_one_that_never_does(
    spoken: Spoken, policy: Policy, data: st.DataObject
) -> None:
    _take_turns(Twins(spoken, policy), data)
