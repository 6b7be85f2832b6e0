"""A session on the agent's side: plain functions on the agent's own list, with no I/O on the caller's thread."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from foldahead import keys, wire
from foldahead.core.conversation import Conversation, Moment
from foldahead.core.dialect import Dialect
from foldahead.core.events import CompactionFailed, Event, SessionRejected, encode_event, events_of, safe_message
from foldahead.core.ledger import bodies_of
from foldahead.core.plan import Plan
from foldahead.core.policy import Mode, Policy, policy_from
from foldahead.core.record import Record, decode_record, encode_record
from foldahead.core.view import MOST_BREAKPOINTS
from foldahead.core.weigh import Counter
from foldahead.errors import InvalidPolicy, SessionClosed, UnusableRecord

_log = logging.getLogger("foldahead")
_DROP_BLOCK_BETA = "thinking-binding-controls-2026-08-01"
_MOST_EVENTS = 256
_MOST_ANSWERS = 64
EXTRACT_FROM_RATIO = 0.7
"""Part of the hard cap from which messages are looked into on the link's thread."""


class Carrier(Protocol):
    """What a session needs of the link."""

    def announce(self, session: "Session") -> None: ...
    def resume(self, session: "Session", timeout_s: float) -> wire.Answer | None: ...
    def flush(self, timeout_s: float) -> bool: ...
    def forget(self, session: "Session", timeout_s: float) -> None: ...


class Session:
    """One conversation of one agent. Made by `Foldahead.session`; one caller at a time."""

    def __init__(
        self, name: str, workspace: str, dialect: Dialect, policy: Policy, carrier: Carrier, parent: str = "",
        on_event: Callable[[bytes], None] | None = None,
    ) -> None:
        self.name = name
        self.workspace = workspace
        self.member = keys.member(workspace, name)
        self._lock = threading.Lock()
        self._conversation = Conversation(dialect, policy, threading.Lock())
        self._own_policy = policy
        self._carrier = carrier
        self._parent = parent
        self._on_event = on_event
        self._answers: deque[wire.Answer] = deque(maxlen=_MOST_ANSWERS)
        self._events: deque[bytes] = deque(maxlen=_MOST_EVENTS)
        self._encoded: list[bytes] = []
        self._encoded_of: list[Record] = []
        self._delta: wire.Delta | None = None
        self._last_request_s: float | None = None
        self._last_publish_s: float | None = None
        self._last_total_tokens: int | None = None
        self._closed = False
        self._waited_turns = 0
        self.last_record: Record | None = None
        """The last thing that made the view differ from the history; None while they are the same."""

    # -- a turn ----------------------------------------------------------------------------------------------------

    def view(
        self, history: list[Any], target_tokens: int | None = None, counter: Counter | None = None
    ) -> list[Any]:
        """What to send in place of the history; the history itself when nothing is to be done.

        With `target_tokens` (the room of the backend about to be called) and `counter` (tokens of a list of messages
        in that backend's units), acceptance and truncation are judged by that pair and no other.
        Raises `InvalidHistory` for a message that is none, `SessionClosed`.
        """
        with self._lock:
            self._check_open()
            self._take_answers()
            degraded_before = self._conversation.degraded
            view = self._conversation.view(history, self._moment(target_tokens, counter))
            self._note_plan(self._conversation.plan, degraded_before)
            self._last_request_s = time.monotonic()
        return view

    def request(self, **kwargs: Any) -> dict[str, Any]:
        """A whole request with the view in place of `messages`; betas and parameters that the view needs are added.

        Raises TypeError without `messages`, and what `view` raises.
        """
        if "messages" not in kwargs:
            raise TypeError("request: expected messages=[...] among the arguments")
        self._conversation.model = str(kwargs.get("model") or "")
        history = kwargs["messages"]
        view = self.view(history)
        if view is history:
            return kwargs
        dialect = self._conversation.dialect
        outside = dialect.breakpoints(kwargs.get("system")) + dialect.breakpoints(kwargs.get("tools"))
        kwargs["messages"] = dialect.limit_breakpoints(view, MOST_BREAKPOINTS - outside) if outside else view
        if self._conversation.policy.tail_thinking == "drop_block" and isinstance(kwargs.get("thinking"), dict):
            kwargs["betas"] = [*(kwargs.get("betas") or ()), _DROP_BLOCK_BETA]
            binding = {"prefix_mismatch_behavior": "drop_block"}
            kwargs["thinking"] = {**kwargs["thinking"], "block_binding": binding}
        return kwargs

    def publish(self, history: list[Any], usage: Any = None, turn_id: str | None = None) -> None:
        """Tell the servers how the session stands after a turn. Never waits.

        `usage` is the provider's for the request just answered; `turn_id` the caller's name for the turn.
        """
        with self._lock:
            self._check_open()
            self._take_answers()
            conversation = self._conversation
            conversation.observe(history)
            if usage is not None:
                conversation.note_usage(usage)
            self._note_growth()
            standing = conversation.standing(turn_id)
            standing = msgspec.structs.replace(standing, parent_session=self._parent)
            wanted = conversation.wants_work(standing)
            uploads = standing.pending_tokens >= conversation.policy.upload_ratio * conversation.policy.threshold
            self._delta = wire.Delta(
                workspace=self.workspace,
                session=self.name,
                standing=standing,
                due_in_s=0.0 if wanted else None,
                upload=conversation.policy.mode != "off" and (uploads or wanted),
            )
        self._carrier.announce(self)

    # -- processes that come and go --------------------------------------------------------------------------------

    def resume(self, history: list[Any], timeout: float = 0.1) -> bool:
        """Fetch what is known of this session: records, pins, what is ready. Waits up to `timeout` seconds.

        False when nothing was known or Redis did not answer: the session then goes on from the history alone.
        """
        self._check_open()
        answer = self._carrier.resume(self, timeout)
        with self._lock:
            self._conversation.observe(history)
            if answer is None:
                return False
            if answer.standing is not None and self._last_publish_s is None:
                self._adopt(answer.standing, answer.idle_s)
            self._answers.append(answer)
            self._take_answers()
        return answer.known

    def _adopt(self, standing: wire.Standing, idle_s: float) -> None:
        """Go on where another process stopped."""
        conversation = self._conversation
        conversation.calibration = standing.calibration
        conversation.model = conversation.model or standing.model
        conversation.stalled = standing.stalled
        conversation.growth.note(int(standing.growth_tokens), standing.interval_s)
        self._last_total_tokens = standing.pending_tokens + standing.tail_tokens
        self._last_publish_s = self._last_request_s = time.monotonic() - idle_s

    def flush(self, timeout: float) -> bool:
        """Wait until all that was published is with Redis; False when `timeout` seconds were not enough."""
        return self._carrier.flush(timeout)

    # -- rules and exceptions --------------------------------------------------------------------------------------

    @property
    def mode(self) -> Mode:
        """`on`, `shadow` or `off`, as the policy and the workspace's overrides have it now."""
        return self._conversation.policy.mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        with self._lock:
            self._own_policy = msgspec.structs.replace(self._own_policy, mode=mode)
            self._conversation.policy = msgspec.structs.replace(self._conversation.policy, mode=mode)

    @property
    def policy(self) -> Policy:
        """The policy in force, with the workspace's overrides as they were last heard of."""
        return self._conversation.policy

    @property
    def plan(self) -> Plan:
        """What the last view was and why."""
        return self._conversation.plan

    @property
    def has_ready(self) -> bool:
        """Whether a summary is at hand that the view does not show yet."""
        return self._conversation.has_ready

    def pin(self, message: Any) -> None:
        """Keep a message of the history in every view, with its tool cycle. Raises ValueError when it is not there."""
        with self._lock:
            self._conversation.pin(message)

    def rejected(self, error: Exception) -> None:
        """Say that the provider refused the last request: the history is given back, the summary put in quarantine."""
        with self._lock:
            span = self._conversation.reject()
            self._sync_records()
            self._tell(
                SessionRejected(
                    session_id=self.name,
                    turn_id=self._turn_id(),
                    cache_key=span.cache_key if span else None,
                    error_class=type(error).__name__,
                    error_message=safe_message(error),
                )
            )
            self.last_record = None
        self._carrier.announce(self)

    def forget(self, timeout: float = 5.0) -> None:
        """Delete what is this session's alone and close it. Raises `Unreachable` when it could not."""
        self._carrier.forget(self, timeout)
        self._closed = True

    @property
    def closed(self) -> bool:
        """Whether it was closed or forgotten."""
        return self._closed

    def close(self) -> None:
        """Give the session up in this process; what was published stays."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed(f"session {self.name!r} was closed: open it again with Foldahead.session")

    # -- inside a turn ---------------------------------------------------------------------------------------------

    def _moment(self, target_tokens: int | None, counter: Counter | None) -> Moment:
        idle_s = time.monotonic() - self._last_request_s if self._last_request_s is not None else 0.0
        return Moment(
            now_ms=time.time_ns() // 1_000_000,
            cold=idle_s > self._conversation.policy.cache_ttl_s,
            target_tokens=target_tokens,
            counter=counter,
        )

    def _note_growth(self) -> None:
        now, total = time.monotonic(), self._conversation.total_tokens()
        interval = now - self._last_publish_s if self._last_publish_s is not None else None
        if self._last_total_tokens is not None:
            self._conversation.growth.note(total - self._last_total_tokens, interval)
        self._last_publish_s, self._last_total_tokens = now, total

    def _note_plan(self, plan: Plan, degraded_before: str) -> None:
        if plan.reason == "no_valid_boundary":
            self._tell_no_boundary(plan)
        self._waited_turns += plan.reason == "not_ready"
        if not plan.records or self._conversation.policy.mode != "on":
            return
        spans = [record for record in plan.records if record.stands_for_span]
        self.last_record = spans[-1] if spans else plan.records[-1]
        self._sync_records()
        for event in events_of(plan, self.name, self._turn_id(), degraded_before, self._waited_turns):
            self._tell(event)
        self._waited_turns = 0 if spans else self._waited_turns
        if self._delta is not None:
            self._carrier.announce(self)

    def _tell_no_boundary(self, plan: Plan) -> None:
        watermark = plan.active.end
        self._tell(
            CompactionFailed(
                session_id=self.name,
                turn_id=self._turn_id(),
                watermark_before=watermark,
                span_message_count=len(self._conversation.ledger) - watermark,
                failure_mode="no_valid_boundary",
            )
        )

    def _turn_id(self) -> str:
        return str(len(self._conversation.ledger.turn_starts))

    def _tell(self, event: Event) -> None:
        encoded = encode_event(event, self.workspace, time.time_ns() // 1_000_000)
        self._events.append(encoded)

    def _sync_records(self) -> None:
        """Keep the encoded records in step: each is encoded once."""
        records = self._conversation.records
        if self._encoded_of != records[: len(self._encoded_of)]:
            self._encoded, self._encoded_of = [], []
        new = records[len(self._encoded_of) :]
        self._encoded = [*self._encoded, *map(encode_record, new)]
        self._encoded_of = [*self._encoded_of, *new]

    def _take_answers(self) -> None:
        while self._answers:
            answer = self._answers.popleft()
            self._take_overrides(answer.overrides)
            if answer.records:
                self._take_records(answer.records)
            for ready in answer.ready:
                self._conversation.add_ready(ready)

    def _take_records(self, encoded: Sequence[bytes]) -> None:
        try:
            theirs = [decode_record(record) for record in encoded]
        except UnusableRecord as error:
            _log.warning("foldahead: records of session %s left out: %s", self.name, error)
            return
        known = {record.identity for record in theirs}
        ours = [record for record in self._conversation.records if record.identity not in known]
        self._conversation.replace_records([*theirs, *ours])
        self._sync_records()
        spans = self._conversation.active.spans
        self.last_record = self.last_record or (spans[-1] if spans else None)

    def _take_overrides(self, overrides: bytes) -> None:
        try:
            values = msgspec.json.decode(overrides, type=dict[str, Any]) if overrides else {}
            own = {name: getattr(self._own_policy, name) for name in self._own_policy.__struct_fields__}
            self._conversation.policy = policy_from(own | values) if values else self._own_policy
        except (msgspec.DecodeError, InvalidPolicy, TypeError) as error:
            _log.warning("foldahead: policy overrides of workspace %s left out: %s", self.workspace, error)

    def start_afresh_in_child(self) -> None:
        """After a fork: another thread of the parent may have held a lock at that moment."""
        self._lock = threading.Lock()
        self._conversation.guard_with(threading.Lock())

    # -- what the link asks, on its own thread -------------------------------------------------------------------------

    def delta(self) -> wire.Delta | None:
        """How the session stands, for the link, which asks even while Redis is away."""
        self._look_ahead()
        return self._delta

    def head(self, at: int) -> bytes | None:
        """The chain head before message `at`, for the link."""
        heads = self._conversation.ledger.heads
        return heads[at] if 0 <= at < len(heads) else None

    def bodies(self, start: int) -> Iterator[tuple[bytes, bytes]]:
        """(head after, canonical body) from message `start` on, for the link; encoded as they are asked for."""
        with self._lock:
            ledger, messages = self._conversation.ledger, self._conversation.seen()
        end = len(messages)
        while start < end:
            chunk = bodies_of(messages, ledger, start, min(end, start + 64))
            yield from zip(ledger.heads[start + 1 :], chunk, strict=False)
            if not chunk:
                return
            start += len(chunk)

    def _look_ahead(self) -> None:
        """Look into the span message by message once the hard cap is near, so that `extract` is at hand there."""
        delta = self._delta
        if delta is None or delta.standing.offer is None or self._conversation.policy.on_hard_cap != "extract":
            return
        if delta.standing.pending_tokens < EXTRACT_FROM_RATIO * self._conversation.policy.hard_cap_tokens:
            return
        foresight, end = self._conversation.foresight, delta.standing.offer.end
        while foresight.lacks(end):
            foresight.advance(end)

    def records(self) -> Sequence[bytes]:
        """All records as JSON, for the link."""
        return self._encoded

    def take_events(self) -> Sequence[bytes]:
        """Events not yet handed over, for the link."""
        taken: list[bytes] = []
        while self._events:
            taken.append(self._events.popleft())
        for event in taken:
            if self._on_event is not None:
                self._on_event(event)
        return taken

    def receive(self, answer: wire.Answer) -> None:
        """Keep an answer for the next turn, for the link."""
        self._answers.append(answer)
