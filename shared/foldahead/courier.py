"""Rounds between sessions and Redis: what one sends and what comes of the replies. On the link's thread."""

import itertools
import logging
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import redis
from msgspec import Struct

from foldahead import wire
from foldahead.calls import Call, Publish, Reply, envelope_call, publish_call, read_reply
from foldahead.errors import Unreachable
from foldahead.line import Line
from foldahead.mailbox import Correspondent, Mailbox

LOOK_FOR_S = 3600.0
"""A session that waits and was not announced for so long is no longer looked at."""
RESTORE_POLL_S = 0.015
SESSIONS_A_CALL = 100
LOOKS_A_CALL = 500
BODY_BYTES_A_CALL = 512 * 1024
LEAST_BODY_BYTES = 16 * 1024
KEPT_BYTES = 16 * 1024 * 1024
"""Bodies kept over all sessions until they are acknowledged; more are encoded again."""

_log = logging.getLogger("foldahead")


class LinkCounters(Struct, frozen=True, kw_only=True):
    """What a link has done since the process (or its fork) began."""

    publishes: int = 0
    looks: int = 0
    answers: int = 0
    bodies: int = 0
    body_bytes: int = 0
    """As they were sent: compressed."""
    records: int = 0
    events: int = 0
    failed_exchanges: int = 0
    refused: int = 0
    """Calls that Redis refused for what they carried."""
    unusable: int = 0
    """Parts of answers that could not be read."""
    faults: int = 0
    """Sessions that raised on the link's thread."""
    dropped_sessions: int = 0
    """News that did not fit into the queue, or came after `close`."""
    dropped_events: int = 0
    refused_bodies: int = 0
    """Sessions whose bodies are no longer sent, one being too large."""
    refused_records: int = 0
    queued: int = 0
    kept_bytes: int = 0
    down: bool = False


class Errand:
    """What a waiting caller wants asked. It waits on `done`; the link's thread sets the rest before."""

    def __init__(self, call: Call, session: Correspondent, deadline_s: float) -> None:
        self.call = call
        self.session = session
        self.deadline_s = deadline_s
        self.not_before_s = 0.0
        self.done = threading.Event()
        self.answer: wire.Answer | None = None
        self.error: Unreachable | None = None

    def settle(self, answer: wire.Answer | None = None, error: Unreachable | None = None) -> None:
        """Let the caller go on."""
        self.answer, self.error = answer, error
        self.done.set()


class Courier:
    """All mailboxes of one incarnation, and the line to Redis."""

    def __init__(self, line: Line, tally: Counter[str]) -> None:
        self.line = line
        self.incarnation = secrets.token_hex(16)
        self.mailboxes: dict[str, Mailbox] = {}
        self._tally = tally
        self._numbers = itertools.count(1)
        self._budget_bytes = BODY_BYTES_A_CALL
        self._to_look: list[str] = []
        self._look_at_all = False

    @property
    def looks_pending(self) -> bool:
        """Whether sessions are still to be looked at in this second."""
        return bool(self._to_look)

    def schedule_looks(self, now_s: float) -> bool:
        """Note who is to be looked at. Returns whether anyone waits: else there is no need to come again."""
        self._purge()
        self._to_look = [
            member
            for member, mailbox in self.mailboxes.items()
            if self._look_at_all or (mailbox.waiting and now_s - mailbox.heard_of_at_s < LOOK_FOR_S)
        ]
        self._look_at_all = False
        return bool(self._to_look)

    def round(
        self, errands: Sequence[Errand], announced: dict[str, Correspondent], now_s: float
    ) -> tuple[dict[str, Correspondent], list[Errand]]:
        """One pipelined exchange. Returns what is to be sent next, and the errands that want another try.

        Takes what it sends out of `announced`, and puts it back when Redis is away: raises `Unreachable`.
        """
        batch, publishes = self._prepare(announced, now_s)
        looks = [mailbox for mailbox in map(self.mailboxes.get, self._to_look[:LOOKS_A_CALL]) if mailbox]
        calls = [errand.call for errand in errands]
        envelopes = [(at, publish.envelope) for at, publish in enumerate(publishes) if publish.envelope]
        calls += [envelope_call(*envelope) for _, envelope in envelopes]
        calls += map(publish_call, publishes)
        calls += [mailbox.look() for mailbox in looks]
        try:
            replies = self.line.exchange(calls, now_s) if calls else []
        except Unreachable:
            self._shrink_budget()
            self._keep(batch, announced)
            raise
        self._budget_bytes = min(BODY_BYTES_A_CALL, max(LEAST_BODY_BYTES, self._budget_bytes * 2))
        del self._to_look[:LOOKS_A_CALL]
        self._tally["looks"] += len(looks)
        waiting = self._after_errands(errands, replies, now_s)
        replies = replies[len(errands) :]
        lacking = self._after_envelopes([publishes[at].member for at, _ in envelopes], replies)
        replies = replies[len(envelopes) :]
        again = self._after_publishes(batch, publishes, replies)
        again |= {member: batch[member] for member in lacking}
        again |= self._after_looks(looks, replies[len(publishes) :])
        return again, waiting

    def _prepare(
        self, announced: dict[str, Correspondent], now_s: float
    ) -> tuple[dict[str, Correspondent], list[Publish]]:
        batch: dict[str, Correspondent] = {}
        publishes: list[Publish] = []
        budget = self._budget_bytes
        while announced and len(batch) < SESSIONS_A_CALL and (budget > 0 or not self._budget_bytes):
            member = next(iter(announced))
            session = announced.pop(member)
            mailbox = self._mailbox(member, session, now_s)
            try:
                publish = mailbox.prepare(session, self.incarnation, self._numbers, budget)
            except Exception:  # noqa: BLE001 - one session's fault must not silence the others
                self._fault(member)
                continue
            if publish is not None:
                batch[member] = session
                publishes.append(publish)
                budget -= sum(len(body) for _, _, body in publish.bodies)
        return batch, publishes

    def _mailbox(self, member: str, session: Correspondent, now_s: float) -> Mailbox:
        mailbox = self.mailboxes.get(member)
        if mailbox is None or mailbox.session() is not session:
            mailbox = self.mailboxes[member] = Mailbox(session, self._tally)
        mailbox.heard_of_at_s = now_s
        return mailbox

    def _shrink_budget(self) -> None:
        """A line too slow for many bodies gets fewer at a time, and at times none: counts get through."""
        self._budget_bytes //= 4
        if self._budget_bytes < LEAST_BODY_BYTES:
            self._budget_bytes = 0

    def _keep(self, batch: dict[str, Correspondent], announced: dict[str, Correspondent]) -> None:
        """After a failure: what was taken goes to the end of the queue, packed bodies within their bound."""
        self._look_at_all = True
        announced.update(batch)
        kept_bytes = 0
        for mailbox in self.mailboxes.values():
            kept_bytes += mailbox.kept_bytes
            if kept_bytes > KEPT_BYTES:
                mailbox.drop_kept()

    def _after_errands(self, errands: Sequence[Errand], replies: Sequence[Any], now_s: float) -> list[Errand]:
        waiting: list[Errand] = []
        for errand, raw in zip(errands, replies, strict=False):
            if isinstance(raw, redis.ResponseError):
                errand.settle(error=Unreachable(self._refused(raw)))
            elif not isinstance(raw, list):  # fold_forget
                self.mailboxes.pop(errand.session.member, None)
                errand.settle()
            elif (reply := self._read(raw)) is not None and reply.answer.known:
                # Handed over like any other: a caller that gave up waiting hears of it on its next turn.
                self._mailbox(errand.session.member, errand.session, now_s).note(reply)
                errand.session.receive(reply.answer)
                errand.settle(reply.answer)
            elif now_s + RESTORE_POLL_S < errand.deadline_s:
                errand.not_before_s = now_s + RESTORE_POLL_S
                waiting.append(errand)
            else:
                errand.settle(wire.Answer(known=False))
        return waiting

    def _after_envelopes(self, members: Sequence[str], replies: Sequence[Any]) -> list[str]:
        """The sessions whose envelope Redis has not: it goes with their next publish."""
        lacking: list[str] = []
        for member, reply in zip(members, replies, strict=False):
            if isinstance(reply, redis.ResponseError):
                self._refused(reply)
                continue
            mailbox = self.mailboxes[member]
            asked_before, mailbox.lacks_envelope = mailbox.lacks_envelope, not reply
            if not reply and not asked_before:
                lacking.append(member)
        return lacking

    def _after_publishes(
        self, batch: dict[str, Correspondent], publishes: Sequence[Publish], replies: Sequence[Any]
    ) -> dict[str, Correspondent]:
        again: dict[str, Correspondent] = {}
        for (member, session), publish, raw in zip(batch.items(), publishes, replies, strict=False):
            mailbox = self.mailboxes[member]
            if isinstance(raw, redis.ResponseError):
                self._refused(raw)
                if mailbox.refused():
                    again[member] = session
                continue
            self._count(publish)
            if self._hand_over(mailbox.take_in, session, raw):
                again[member] = session
        return again

    def _after_looks(self, looks: Sequence[Mailbox], replies: Sequence[Any]) -> dict[str, Correspondent]:
        again: dict[str, Correspondent] = {}
        for mailbox, raw in zip(looks, replies, strict=True):
            session = mailbox.session()
            if isinstance(raw, redis.ResponseError):
                self._refused(raw)
            elif session is not None and self._hand_over(mailbox.hear, session, raw):
                again[mailbox.member] = session
        return again

    def _hand_over(self, take: Callable[[Correspondent, Reply], bool], session: Correspondent, raw: Any) -> bool:
        reply = self._read(raw)
        if reply is None:
            return False
        self._tally["answers"] += 1
        try:
            return take(session, reply)
        except Exception:  # noqa: BLE001 - one session's fault must not silence the others
            self._fault(session.member)
            return False

    def _read(self, raw: Any) -> Reply | None:
        reply = read_reply(raw)
        for words in reply.unusable if reply else ():
            self._tally["unusable"] += 1
            self.line.say_once("unusable", f"part of an answer is left out: {words}")
        return reply

    def _refused(self, error: redis.ResponseError) -> str:
        self._tally["refused"] += 1
        words = self.line.redacted(str(error))
        self.line.say_once(f"refused:{words[:24]}", f"Redis refused a call: {words}")
        return words

    def _fault(self, member: str) -> None:
        self._tally["faults"] += 1
        _log.exception("foldahead: session %s is left out until its next publish", member)

    def _count(self, publish: Publish) -> None:
        self._tally["publishes"] += 1
        self._tally["bodies"] += len(publish.bodies)
        self._tally["body_bytes"] += sum(len(body) for _, _, body in publish.bodies)
        self._tally["records"] += len(publish.records)
        self._tally["events"] += len(publish.events)

    def _purge(self) -> None:
        for member in [member for member, mailbox in self.mailboxes.items() if mailbox.session() is None]:
            del self.mailboxes[member]
