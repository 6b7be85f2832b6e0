"""What a session has for the servers, and what it has heard from them: the link's view of it, on the link's thread."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from foldahead import wire
from foldahead.core.envelope import MAX_ENVELOPE_BYTES, Envelope
from foldahead.core.events import Event, encode_event
from foldahead.core.glancing import GlancingConversation
from foldahead.core.ledger import Ledger, bodies_of
from foldahead.core.native import NATIVE_DIALECT
from foldahead.core.originals import originals_of
from foldahead.core.record import Record, encode_record
from foldahead.core.standing import Ready

EXTRACT_FROM_RATIO = 0.7
"""Part of the hard cap from which messages are looked into on the link's thread."""
_MOST_EVENTS = 256
_MOST_ANSWERS = 64
_BODIES_AT_ONCE = 64

_log = logging.getLogger("foldahead")


class Outbox:
    """Between one session and the link. Everything kept here is bounded, but for the records, which are few.

    `lock` is the session's: held for a moment while the list of messages is copied.
    """

    def __init__(
        self,
        member: str,
        workspace: str,
        conversation: GlancingConversation,
        lock: threading.Lock,
        on_event: Callable[[bytes], None] | None,
    ) -> None:
        self.member = member
        self.lock = lock
        self.edit_noticed = False
        """A message was changed in place since it was seen: its body does not hash to its head any more."""
        self.has_news = False
        """There may be an answer to take in, or an edit was noticed."""
        self._workspace = workspace
        self._conversation = conversation
        self._on_event = on_event
        self._answers: deque[wire.Answer] = deque(maxlen=_MOST_ANSWERS)
        self._events: deque[bytes] = deque(maxlen=_MOST_EVENTS)
        self._encoded: list[bytes] = []
        self._encoded_of: list[Record] = []
        self._delta: wire.Delta | None = None
        self._envelope = ("", Envelope())
        self._heard_overrides: bytes | None = b""
        self._closed = False

    # -- the session's side ------------------------------------------------------------------------------------------

    def put(self, delta: wire.Delta) -> None:
        """How the session stands now."""
        self._delta = delta

    def put_envelope(self, envelope: Envelope) -> None:
        """What the request that is being made holds beside model and messages."""
        digest = envelope.digest
        if digest != self._envelope[0] and len(envelope.encoded()) > MAX_ENVELOPE_BYTES:
            self._conversation.hands_out_originals = False
        self._conversation.envelope = digest
        self._envelope = (digest, envelope)

    def want_nothing(self) -> bool:
        """No more work is wanted. Returns whether the servers know of the session at all."""
        if self._delta is not None:
            self._delta = msgspec.structs.replace(self._delta, due_in_s=None, upload=False)
        return self._delta is not None

    def tell(self, event: Event, now_ms: int) -> None:
        """An event to be kept."""
        self._events.append(encode_event(event, self._workspace, now_ms))

    def keep_records(self, records: list[Record]) -> None:
        """All records of the session: each is encoded once."""
        if self._encoded_of != records[: len(self._encoded_of)]:
            self._encoded, self._encoded_of = [], []
        new = records[len(self._encoded_of) :]
        self._encoded = [*self._encoded, *map(encode_record, new)]
        self._encoded_of = [*self._encoded_of, *new]

    def next_answer(self) -> wire.Answer | None:
        """The oldest answer that was not taken yet."""
        return self._answers.popleft() if self._answers else None

    def close(self, closed: bool = True) -> None:
        """Tell nothing any more (or, where closing failed, go on)."""
        self._closed = closed

    # -- the link's side ---------------------------------------------------------------------------------------------

    def delta(self) -> wire.Delta | None:
        """How the session stands; asked even while Redis is away. None before there is anything, and when closed."""
        if self._closed:
            return None
        self._look_ahead()
        delta = self._delta
        if delta is not None and delta.standing.envelope and not self._conversation.hands_out_originals:
            # Found since it was put: a `native` job would ask for what cannot be handed over, again and again.
            return msgspec.structs.replace(delta, standing=msgspec.structs.replace(delta.standing, envelope=""))
        return delta

    def head(self, at: int) -> bytes | None:
        """The chain head before message `at`."""
        heads = self._conversation.ledger.settled_heads
        return heads[at] if 0 <= at < len(heads) else None

    def envelope(self, digest: str) -> bytes | None:
        """The envelope of that digest; None when the requests have another one by now."""
        current, envelope = self._envelope
        return envelope.encoded() if current == digest else None

    def bodies(self, start: int) -> Iterator[tuple[bytes, bytes]]:
        """(head after, body) from message `start` on; encoded as they are asked for."""
        with self.lock:
            ledger, messages = self._conversation.ledger, self._conversation.seen()
        end = min(len(messages), len(ledger.settled_heads) - 1)
        while start < end:
            upto = min(end, start + _BODIES_AT_ONCE)
            chunk = self._encoded_bodies(messages, ledger, start, upto)
            yield from zip(ledger.settled_heads[start + 1 :], chunk, strict=False)
            if len(chunk) < upto - start:
                self.edit_noticed = self.has_news = True
                return
            start = upto

    def _encoded_bodies(self, messages: list[Any], ledger: Ledger, start: int, end: int) -> list[bytes]:
        """Bodies in the form that the session's kind of summary takes; fewer where a message was edited in place."""
        conversation = self._conversation
        wants_originals = conversation.policy.kind == "native" and ledger.dialect.name == NATIVE_DIALECT
        if wants_originals and conversation.hands_out_originals:
            originals = originals_of(messages, ledger, start, end)
            if originals or not bodies_of(messages, ledger, start, start + 1):
                return originals
            conversation.hands_out_originals = False  # JSON cannot hold this message
        return bodies_of(messages, ledger, start, end)

    def records(self) -> Sequence[bytes]:
        """All records, JSON, in order."""
        return self._encoded

    def take_events(self) -> Sequence[bytes]:
        """Events not handed over yet; the caller's own listener hears them now."""
        taken: list[bytes] = []
        while self._events:
            taken.append(self._events.popleft())
        if self._on_event is not None:
            for event in taken:
                self._on_event(event)
        return taken

    def receive(self, answer: wire.Answer) -> None:
        """Keep an answer for the next turn, if it says more than the last one and what the session has told."""
        if answer.records and list(answer.records) == self._encoded:
            answer = msgspec.structs.replace(answer, records=())
        if len(self._answers) == _MOST_ANSWERS:
            self._heard_overrides = None  # what is pushed out may be what said so
        changes = bool(answer.records) or answer.overrides != self._heard_overrides
        if changes or answer.ready:
            self._heard_overrides = answer.overrides
            if changes or not self._weigh(answer.ready):
                self._answers.append(answer)
                self.has_news = True

    def _weigh(self, ready: Sequence[Ready]) -> bool:
        """Take summaries in between a publish and the next turn, which then finds them weighed.

        False where they wait for that turn: it is being made (a caller's counter may take long), something came before
        them, or a message is spoilt, of which the turn tells.
        """
        conversation, lock = self._conversation, self.lock
        if not lock.acquire(blocking=False):
            return False
        try:
            if self.has_news or self._closed or conversation.is_behind or conversation.calm is None:
                return False
            for one in ready:
                conversation.add_ready(one)
            conversation.prepare()
        except Exception:  # noqa: BLE001 - one session's fault must not silence the others
            _log.warning("foldahead: session %s: its next turn reads the history anew", self.member, exc_info=True)
            self.edit_noticed = self.has_news = True
            return False
        finally:
            lock.release()
        return True

    def _look_ahead(self) -> None:
        """Look into the span message by message once the hard cap is near, so that `extract` is at hand there."""
        delta, policy = self._delta, self._conversation.policy
        if delta is None or delta.standing.offer is None or policy.on_hard_cap != "extract":
            return
        if delta.standing.pending_tokens < EXTRACT_FROM_RATIO * policy.hard_cap_tokens:
            return
        foresight, end = self._conversation.foresight, delta.standing.offer.end
        while foresight.lacks(end):
            foresight.advance(end)
