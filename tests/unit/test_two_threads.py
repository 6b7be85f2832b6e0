"""The link's thread reads a session while the agent's goes on: what it reads always hangs together."""

import threading
from typing import Any

from benchmarks.histories import Author
from benchmarks.sessions import SilentCarrier
from foldahead import Policy, Session
from foldahead.core import canonical
from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import ledger_of

POLICY = Policy(threshold_tokens=4_000, hard_cap_tokens=8_000, preserve_recent_turns=2, min_span_tokens=1)
TURNS = 150


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


def test_bodies_read_while_hashing_is_put_off_lead_to_their_heads() -> None:
    carrier = SilentCarrier()
    session = Session("s", "acme", get_dialect("anthropic"), POLICY, carrier)
    author = Author(3)
    history: list[Any] = [author.opening()]
    session.publish(history)
    assert carrier.outbox is not None
    reader = Reader(carrier.outbox)
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
