"""The link's thread reads a session, and hands it summaries, while the agent's goes on: all of it hangs together."""

import threading
from typing import Any

from benchmarks.histories import Author
from benchmarks.sessions import SilentCarrier, ready_for
from foldahead import Policy, Session, wire
from foldahead.core import canonical
from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import ledger_of
from tests.judging import faults_of

POLICY = Policy(threshold_tokens=4_000, hard_cap_tokens=8_000, preserve_recent_turns=2, min_span_tokens=1)
TURNS = 150
SUMMARY = "They worked on it, step by step."


class Reader(threading.Thread):
    """Does what the link does, over and over: the standing, heads, bodies from anywhere."""

    def __init__(self, outbox: Any) -> None:
        super().__init__(daemon=True)
        self._outbox = outbox
        self.done = threading.Event()
        self.faults: list[str] = []
        self.read = 0

    def run(self) -> None:
        start = 0
        while not self.done.is_set():
            self._outbox.delta()
            head = self._outbox.head(start)
            if head is None:
                start = 0
                continue
            for after, body in self._outbox.bodies(start):
                head = canonical.next_head(head, canonical.digest(body))
                self.read += 1
                if head != after:
                    self.faults.append(f"a body read from {start} on does not lead to its head")
                    return
            start = (start * 7 + 3) % 97


class Giver(threading.Thread):
    """Hands the session a summary of whatever it offers, over and over, as the link does."""

    def __init__(self, outbox: Any) -> None:
        super().__init__(daemon=True)
        self._outbox = outbox
        self.done = threading.Event()
        self.faults: list[BaseException] = []

    def run(self) -> None:
        while not self.done.is_set():
            offer = self._outbox.delta().standing.offer
            if offer is None:
                continue
            try:
                self._outbox.receive(wire.Answer(known=True, ready=(ready_for(offer, SUMMARY),)))
            except Exception as error:  # noqa: BLE001 - shown by the test
                self.faults.append(error)
                return


def published(seed: int, turns: int = 0) -> tuple[Session, list[Any], Any, Author]:
    """A session that has published a history of so many turns, the history, the outbox, and who goes on with it."""
    carrier, author = SilentCarrier(), Author(seed)
    session = Session("s", "acme", get_dialect("anthropic"), POLICY, carrier)
    history: list[Any] = [author.opening(), *(message for _ in range(turns) for message in author.turn())]
    session.publish(history)
    return session, history, carrier.outbox, author


def test_bodies_read_while_hashing_is_put_off_lead_to_their_heads() -> None:
    session, history, outbox, author = published(3)
    reader = Reader(outbox)
    reader.start()
    for turn in range(TURNS):
        session.view(history)
        history.extend(author.turn())
        if turn % 3:  # else what was put off waits for the next
            session.publish(history)
    session.publish(history)
    reader.done.set()
    reader.join(20)
    assert reader.faults == []
    assert reader.read > len(history)
    assert session.standing.head == ledger_of(history, get_dialect("anthropic")).head


def test_summaries_that_come_at_any_moment_of_a_turn_leave_it_whole() -> None:
    session, history, outbox, author = published(5)
    giver = Giver(outbox)
    giver.start()
    swaps = 0
    for turn in range(TURNS):
        before = len(session.records)
        view = session.request(messages=history)["messages"]
        swaps += len(session.records) > before
        assert faults_of(view, "anthropic") == []
        assert view[-1] is history[-1]
        history.extend(author.turn())
        if turn % 3:
            session.publish(history)
    giver.done.set()
    giver.join(20)
    assert giver.faults == []
    assert swaps > 3


class Counting(threading.Thread):
    """A caller in the middle of a turn, whose counter does not come to an end before it may."""

    def __init__(self, session: Session, history: list[Any]) -> None:
        super().__init__(daemon=True)
        self._session, self._history = session, history
        self._counts, self.may_go_on = threading.Event(), threading.Event()

    def run(self) -> None:
        self._session.view(self._history, 5, self._count)

    def wait_until_it_counts(self) -> None:
        assert self._counts.wait(20)

    def _count(self, messages: list[Any]) -> int:
        self._counts.set()
        self.may_go_on.wait(5)
        return len(messages)


def in_a_turn() -> tuple[Session, list[Any], Any, Counting]:
    """A session that waits for a summary, its history and outbox, and a caller in the middle of a turn of it."""
    session, history, outbox, author = published(3, turns=20)
    history += author.turn()
    caller = Counting(session, history)
    caller.start()
    caller.wait_until_it_counts()
    return session, history, outbox, caller


def test_a_summary_that_comes_while_a_caller_counts_does_not_hold_up_the_link() -> None:
    session, history, outbox, caller = in_a_turn()
    outbox.receive(wire.Answer(known=True, ready=(ready_for(outbox.delta().standing.offer, SUMMARY),)))
    assert caller.is_alive()
    caller.may_go_on.set()
    caller.join(20)
    assert session.request(messages=history)["messages"] is not history


def test_a_child_that_is_forked_in_the_middle_of_a_turn_reads_the_history_anew() -> None:
    session, history, outbox, caller = in_a_turn()
    session.start_afresh_in_child()
    assert outbox.edit_noticed
    session.publish(history)
    assert session.standing.head == ledger_of(history, get_dialect("anthropic")).head
    caller.may_go_on.set()
    caller.join(20)
