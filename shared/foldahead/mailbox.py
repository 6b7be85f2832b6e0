"""What the link knows of one session: what Redis has of it, and what is to be sent next. No I/O here."""

import weakref
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from foldahead import wire
from foldahead.calls import (
    MAX_BODIES,
    MAX_BODY_BYTES,
    MAX_EVENT_BYTES,
    MAX_RECORD_BYTES,
    Call,
    Publish,
    Reply,
    look_call,
    pack_body,
    record_id,
)
from foldahead.errors import UnusableRecord

MAX_BODIES_A_CALL = 2_000
MAX_EVENTS_A_CALL = 100
MAX_EVENTS_KEPT = 1_000
MAX_READY_KNOWN = 64
MAX_RECORD_BYTES_A_CALL = 1024 * 1024

PackedBody = tuple[bytes, bytes, bytes]


class Correspondent(Protocol):
    """What the link needs of a session. All but `member` is called on the link's thread, at any moment.

    The link holds a session weakly once nothing of it is left to send.
    """

    @property
    def member(self) -> str:
        """The session's name in Redis: `keys.member(workspace, session)`."""
        ...

    def delta(self) -> wire.Delta | None:
        """How the session stands now, whether or not it was asked before; None before the first publish."""
        ...

    def head(self, at: int) -> bytes | None:
        """The chain head before message `at` of the history that `delta` tells of; None past its end."""
        ...

    def bodies(self, start: int) -> Iterator[tuple[bytes, bytes]]:
        """Head after, and canonical body, of the messages from `start` on. Lazy: encoding happens here."""
        ...

    def envelope(self, digest: str) -> bytes | None:
        """The envelope of that digest, which a delta named; None once the requests have another."""
        ...

    def records(self) -> Sequence[bytes]:
        """All the session's records as JSON, in order. A list that only grows; the link finds what is new."""
        ...

    def take_events(self) -> Sequence[bytes]:
        """Events that are to be kept, JSON, each handed over once."""
        ...

    def receive(self, answer: wire.Answer) -> None:
        """Store what Redis said. If there are records, they are all that Redis has: new ones are taken in."""
        ...


class Mailbox:
    """One session's side of the link. Used on the link's thread alone, but for `session` and its creation."""

    def __init__(self, session: Correspondent, tally: Counter[str]) -> None:
        self.member = session.member
        self.session = weakref.ref(session)
        self.waiting = False
        """Whether the session wants work or a job has it: it is looked at once a second."""
        self.heard_of_at_s = 0.0
        """When it was last announced, on the link's monotonic clock."""
        self._tally = tally
        self._rev = ""
        self._mark = ""
        self._stored: int | None = None  # bodies that Redis has of this history; None: not heard yet
        self._uploads = True
        self.lacks_envelope = False
        """Redis said that it has not the envelope of the last publish."""
        self._ids: dict[bytes, bytes] = {}
        self._acknowledged: set[bytes] = set()
        self._events: deque[tuple[int, bytes]] = deque()
        self._ready_known: dict[str, None] = {}
        self._held_back = False
        self._kept: tuple[int, bytes, list[PackedBody]] | None = None
        self._sent: Publish | None = None

    @property
    def kept_bytes(self) -> int:
        """Size of the bodies that are kept until they are acknowledged."""
        return sum(len(body) for _, _, body in self._kept[2]) if self._kept else 0

    def drop_kept(self) -> None:
        """Give the kept bodies up; they are encoded again from the history."""
        self._kept = None

    def prepare(
        self, session: Correspondent, incarnation: str, numbers: Iterator[int], body_budget: int
    ) -> Publish | None:
        """The next publish; None when there is nothing to tell.

        It has bodies of about `body_budget` bytes, one at least, or none for 0. `numbers` grow over all
        sessions of the incarnation.
        """
        delta = session.delta()
        if delta is None:
            return None
        standing = delta.standing
        upload = delta.upload and self._uploads
        self._take_events(session, numbers)
        first, head_before, bodies = self._next_bodies(session, standing, body_budget) if upload else (None, b"", [])
        self.waiting = delta.due_in_s is not None
        self._sent = Publish(
            member=self.member,
            incarnation=incarnation,
            n=next(numbers),
            standing=wire.encode(standing),
            messages=standing.messages,
            head=standing.head,
            due_ms=None if delta.due_in_s is None else max(0, int(delta.due_in_s * 1000)),
            urgent=standing.forced,
            upload=upload,
            mark=self._mark,
            bodies_from=first,
            head_before=head_before,
            bodies=bodies,
            envelope=self._envelope(session, delta) if upload and standing.envelope else None,
            records=self._new_records(session),
            events=tuple(islice(self._events, MAX_EVENTS_A_CALL)),
            ready_known=tuple(self._ready_known),
            anchors=self._anchors(session, standing.messages, (first or 0) + len(bodies)) if upload else (),
        )
        return self._sent

    def _envelope(self, session: Correspondent, delta: wire.Delta) -> tuple[str, str, bytes]:
        digest = delta.standing.envelope
        encoded = session.envelope(digest) if self.lacks_envelope else None
        return (delta.workspace, digest, encoded or b"")

    def look(self) -> Call:
        """Ask whether there is anything new for the session."""
        return look_call(self.member, self._rev, self._mark, tuple(self._ready_known))

    def take_in(self, session: Correspondent, reply: Reply) -> bool:
        """What Redis answered to the publish sent last. Returns whether there is more to send at once."""
        sent, self._sent, self._kept = self._sent, None, None
        if sent is None:
            return False
        self._acknowledged.update(identity for identity, _ in sent.records)
        while self._events and sent.events and self._events[0][0] <= sent.events[-1][0]:
            self._events.popleft()
        wanted, stored = reply.answer.bodies_from, self._stored
        if sent.upload:
            self._stored = sent.messages if wanted is None else wanted
        lost = self._hear(session, reply)
        # The same index wanted again: the history has nothing to give from there, asking on would not end.
        wants_more = sent.upload and wanted is not None and (wanted != stored or self._held_back)
        return lost or wants_more or bool(self._events) or bool(self._new_records(session))

    def note(self, reply: Reply) -> None:
        """Remember what an answer said, without handing it to the session."""
        self._rev, self._mark = reply.rev, reply.mark
        self.waiting = self.waiting or bool(reply.answer.job)
        for summary in reply.answer.ready:
            self._ready_known[summary.cache_key] = None
        while len(self._ready_known) > MAX_READY_KNOWN:
            del self._ready_known[next(iter(self._ready_known))]
        if reply.records_told:
            self._acknowledged = set(filter(None, map(self._identity, reply.answer.records)))

    def hear(self, session: Correspondent, reply: Reply) -> bool:
        """Hand the session the answer to a look. Returns whether Redis lost what it must be told again."""
        lost = self._hear(session, reply)
        return lost or (reply.answer.bodies_from is not None and self._uploads)

    def _hear(self, session: Correspondent, reply: Reply) -> bool:
        if not reply.answer.known:
            self.start_over()
            return True
        before = self._acknowledged
        self.note(reply)
        session.receive(reply.answer)
        return not before <= self._acknowledged

    def start_over(self) -> None:
        """Redis knows nothing of the session (any more): everything is told again."""
        self._rev, self._mark, self._stored = "", "", None
        self._acknowledged.clear()
        self._ready_known.clear()

    def refused(self) -> bool:
        """Redis refused the last publish for what it carries. Returns whether to send again, without that."""
        sent, self._sent = self._sent, None
        if sent is None:
            return False
        if sent.bodies:
            self._stop_uploading()
        elif sent.records:
            self._ids.update({record: b"" for _, record in sent.records})
            self._tally["refused_records"] += len(sent.records)
        elif sent.events:
            while self._events and self._events[0][0] <= sent.events[-1][0]:
                self._events.popleft()
                self._tally["dropped_events"] += 1
        else:
            return False
        return True

    def _stop_uploading(self) -> None:
        """From now on counts alone are sent: the session cannot be summarised by a server."""
        self._uploads, self._kept = False, None
        self._tally["refused_bodies"] += 1

    def _take_events(self, session: Correspondent, numbers: Iterator[int]) -> None:
        for event in session.take_events():
            if len(event) > MAX_EVENT_BYTES or len(self._events) >= MAX_EVENTS_KEPT:
                self._tally["dropped_events"] += 1
            else:
                self._events.append((next(numbers), event))

    def _new_records(self, session: Correspondent) -> tuple[tuple[bytes, bytes], ...]:
        """What Redis has not acknowledged, in order, as much as one call may carry."""
        new: list[tuple[bytes, bytes]] = []
        size = 0
        for record in session.records():
            identity = self._identity(record)
            if identity and identity not in self._acknowledged:
                size += len(record)
                if new and size > MAX_RECORD_BYTES_A_CALL:
                    break
                new.append((identity, record))
        return tuple(new)

    def _identity(self, record: bytes) -> bytes:
        """A record's identity, found once; empty for one that Redis would refuse."""
        identity = self._ids.get(record)
        if identity is None:
            try:
                identity = record_id(record) if len(record) <= MAX_RECORD_BYTES else b""
            except UnusableRecord:
                identity = b""
            self._tally["refused_records"] += not identity
            self._ids[record] = identity
        return identity

    def _next_bodies(
        self, session: Correspondent, standing: wire.Standing, budget: int
    ) -> tuple[int | None, bytes, list[PackedBody]]:
        start = self._stored
        head_before = None if start is None or start >= standing.messages else session.head(start)
        if start is None or head_before is None:
            return None, b"", []
        self._held_back = budget <= 0
        if self._held_back:
            return None, b"", []
        if self._kept and self._kept[:2] == (start, head_before):
            return self._kept
        packed: list[PackedBody] = []
        limit = min(standing.messages, MAX_BODIES) - start
        for head_after, body in islice(session.bodies(start), max(0, min(limit, MAX_BODIES_A_CALL))):
            flag, stored = pack_body(body)
            if len(body) > MAX_BODY_BYTES:
                self._stop_uploading()
                break
            packed.append((head_after, flag, stored))
            budget -= len(stored)
            if budget <= 0:
                break
        if not packed:
            return None, b"", []
        self._kept = (start, head_before, packed)
        return self._kept

    def _anchors(self, session: Correspondent, messages: int, sent: int) -> tuple[tuple[int, bytes], ...]:
        """Where Redis's bodies may agree with this history: as they were, at `sent`, ever further back."""
        places = {messages, min(self._stored or 0, messages), min(sent, messages)}
        back = 1
        while back < messages:
            places.add(messages - back)
            back *= 2
        found = ((place, session.head(place)) for place in sorted(places) if place)
        return tuple((place, head) for place, head in found if head is not None)
