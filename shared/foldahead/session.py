"""A session on the agent's side: plain functions on the agent's own list, with no I/O on the caller's thread."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from foldahead import keys, wire
from foldahead.core.conversation import Conversation, Moment
from foldahead.core.dialect import Dialect
from foldahead.core.envelope import envelope_of, request_with
from foldahead.core.events import CompactionFailed, SessionRejected, events_of, safe_message
from foldahead.core.plan import Plan
from foldahead.core.policy import Mode, Policy, policy_from
from foldahead.core.record import Record, decode_record
from foldahead.core.weigh import Counter
from foldahead.errors import InvalidHistory, InvalidPolicy, SessionClosed, Unreachable, UnusableRecord
from foldahead.outbox import Outbox
from foldahead.pace import Pace

_log = logging.getLogger("foldahead")


class Carrier(Protocol):
    """What a session needs of the link."""

    def announce(self, session: Outbox) -> None: ...
    def resume(self, session: Outbox, timeout_s: float) -> wire.Answer | None: ...
    def flush(self, timeout_s: float) -> bool: ...
    def forget(self, session: Outbox, timeout_s: float) -> None: ...
    def leave(self, session: Outbox) -> None: ...


class Session:
    """One conversation of one agent. Made by `Foldahead.session`; one caller at a time."""

    def __init__(
        self,
        name: str,
        workspace: str,
        dialect: Dialect,
        policy: Policy,
        carrier: Carrier,
        parent: str = "",
        on_event: Callable[[bytes], None] | None = None,
    ) -> None:
        self.name = name
        self.workspace = workspace
        self.dialect = dialect.name
        self.member = keys.member(workspace, name)
        self._lock = threading.Lock()
        self._conversation = Conversation(dialect, policy, threading.Lock())
        self._outbox = Outbox(self.member, workspace, self._conversation, self._lock, on_event)
        self._own_policy = policy
        self._overrides: bytes = b""
        self._carrier = carrier
        self._parent = parent
        self._pace = Pace()
        self._waited_turns = 0
        self._closed = False
        self._said_usage = False
        self.last_record: Record | None = None
        """The last thing that made the view differ from the history; None while they are the same."""

    # -- a turn ----------------------------------------------------------------------------------------------------

    def view(self, history: list[Any], target_tokens: int | None = None, counter: Counter | None = None) -> list[Any]:
        """What to send in place of the history; the history itself when nothing is to be done.

        With `target_tokens` (the room of the backend about to be called) and `counter` (tokens of a list of messages
        in that backend's units), acceptance and truncation are judged by that pair and no other.
        Raises `InvalidHistory` for a message that is none, `SessionClosed`.
        """
        with self._lock:
            self._begin(history)
            degraded_before = self._conversation.degraded
            recorded = len(self._conversation.records)
            view = self._conversation.view(history, self._moment(target_tokens, counter))
            self._pace.note_request()
            news = self._note_plan(self._conversation.plan, degraded_before)
            if not news and len(self._conversation.records) != recorded:
                self._put_records()  # thinking that went because the session was turned off or on: in no plan
                news = True
        if news:
            self._carrier.announce(self._outbox)
        return view

    def request(self, **kwargs: Any) -> dict[str, Any]:
        """A whole request with the view in place of `messages`; betas and parameters that the view needs are added.

        Raises TypeError without `messages`, and what `view` raises.
        """
        if "messages" not in kwargs:
            raise TypeError("request: expected messages=[...] among the arguments")
        conversation = self._conversation
        conversation.model = str(kwargs.get("model") or "")
        if conversation.policy.kind == "native" or conversation.shows_block:
            self._outbox.put_envelope(envelope_of(kwargs))
        view = self.view(kwargs["messages"])
        shows_block = conversation.shows_block
        return request_with(view, kwargs, conversation.dialect, conversation.policy, shows_block=shows_block)

    def publish(self, history: list[Any], usage: Any = None, turn_id: str | int | None = None) -> None:
        """Tell the servers how the session stands after a turn. Never waits.

        `usage` is the provider's for the request just answered, None or one that says nothing if there is none;
        `turn_id` the caller's name for the turn. Raises `InvalidHistory`, `SessionClosed`.
        """
        with self._lock:
            self._begin(history)
            self._conversation.observe(history)
            if usage is not None and not self._conversation.note_usage(usage) and not self._said_usage:
                self._said_usage = True
                _log.warning("foldahead: usage of session %s cannot be read, it is left out", self.name)
            self._pace.note_publish(self._conversation.total_tokens(), self._conversation.growth)
            self._put_standing(None if turn_id is None else str(turn_id))
        self._carrier.announce(self._outbox)

    # -- processes that come and go --------------------------------------------------------------------------------

    def resume(self, history: list[Any], timeout: float = 0.1) -> bool:
        """Fetch what is known of this session: records, pins, what is ready. Waits up to `timeout` seconds.

        False when nothing is known or Redis did not answer: the session then goes on from the history alone, and
        takes in what comes later.
        """
        self._check_open()
        answer = self._carrier.resume(self._outbox, timeout)
        with self._lock:
            self._begin(history)
            self._conversation.observe(history)
            if answer is None:
                return False
            if answer.standing is not None and not self._pace.is_known:
                self._adopt(answer.standing, answer.idle_s)
        return answer.known and bool(answer.standing or answer.records or answer.ready)

    def _adopt(self, standing: wire.Standing, idle_s: float) -> None:
        """Go on where another process stopped."""
        conversation = self._conversation
        conversation.calibration = standing.calibration
        conversation.model = conversation.model or standing.model
        conversation.stalled = standing.stalled
        conversation.growth.note(int(standing.growth_tokens), standing.interval_s)
        self._pace.take_over(standing.pending_tokens + standing.tail_tokens, idle_s)

    def flush(self, timeout: float) -> bool:
        """Wait until all that this process has told is with Redis; False when `timeout` seconds were not enough."""
        return self._carrier.flush(timeout)

    # -- rules and exceptions --------------------------------------------------------------------------------------

    @property
    def mode(self) -> Mode:
        """`on`, `shadow` or `off`, as the policy and the workspace's overrides have it now."""
        return self._conversation.policy.mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self.policy = msgspec.structs.replace(self._own_policy, mode=mode)

    @property
    def policy(self) -> Policy:
        """The policy in force, with the workspace's overrides as they were last heard of."""
        return self._conversation.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        with self._lock:
            self._own_policy = policy
            self._apply_overrides()

    @property
    def plan(self) -> Plan:
        """What the last view was and why."""
        return self._conversation.plan

    @property
    def records(self) -> tuple[Record, ...]:
        """Every difference between history and view so far, oldest first: what `replay` needs besides the history."""
        return tuple(self._conversation.records)

    @property
    def has_ready(self) -> bool:
        """Whether a summary is at hand that the view does not show yet."""
        return self._conversation.has_ready

    @property
    def standing(self) -> wire.Standing:
        """How the session stands: counts and heads of the history as last seen, as a publish tells them."""
        with self._lock:
            return self._conversation.standing()

    def pin(self, message: Any) -> None:
        """Keep a message of the history in every view, with its tool cycle. Raises ValueError when it is not there."""
        with self._lock:
            self._check_open()
            self._conversation.pin(message, _now_ms())
            self._put_records()
        self._carrier.announce(self._outbox)

    def rejected(self, error: Exception) -> None:
        """Say that the provider refused the last request: the history is given back, the summary put in quarantine."""
        with self._lock:
            self._check_open()
            span = self._conversation.reject(_now_ms(), error)
            event = SessionRejected(
                session_id=self.name,
                turn_id=self._turn_id(),
                cache_key=span.cache_key if span else None,
                error_class=type(error).__name__,
                error_message=safe_message(error),
            )
            self._outbox.tell(event, _now_ms())
            self._put_records()
            self.last_record = None
        self._carrier.announce(self._outbox)

    def forget(self, timeout: float = 5.0) -> None:
        """Delete what is this session's alone and close it. Raises `Unreachable` when it could not; then it is open."""
        self._check_open()
        self._outbox.close()
        try:
            self._carrier.forget(self._outbox, timeout)
        except Unreachable:
            self._outbox.close(closed=False)
            raise
        self._closed = True

    @property
    def closed(self) -> bool:
        """Whether it was closed or forgotten."""
        return self._closed

    def close(self) -> None:
        """Give the session up in this process, without waiting: a job that nobody else waits for is cancelled.

        What was told stays, and goes out first; the session can be opened again and resumed.
        """
        if self._closed:
            return
        self._closed = True
        if self._outbox.want_nothing():
            self._carrier.announce(self._outbox)
            self._carrier.leave(self._outbox)

    def start_afresh_in_child(self) -> None:
        """After a fork: another thread of the parent may have held a lock at that moment."""
        self._lock = self._outbox.lock = threading.Lock()
        self._conversation.guard_with(threading.Lock())

    # -- inside a turn ---------------------------------------------------------------------------------------------

    def _begin(self, history: object) -> None:
        """What every call does first: is it to be taken at all, and what has been heard meanwhile."""
        self._check_open()
        if not isinstance(history, list):
            raise InvalidHistory(f"history: expected a list of messages, got {type(history).__name__}")  # pyright: ignore[reportUnknownArgumentType]
        if self._outbox.edit_noticed:
            self._outbox.edit_noticed = False
            self._conversation.observe_afresh(history)  # pyright: ignore[reportUnknownArgumentType]
        while (answer := self._outbox.next_answer()) is not None:
            if answer.overrides != self._overrides:
                self._overrides = answer.overrides
                self._apply_overrides()
            if answer.records:
                self._take_records(answer.records)
            for ready in answer.ready:
                self._conversation.add_ready(ready)

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed(f"session {self.name!r} was closed: open it again with Foldahead.session")

    def _moment(self, target_tokens: int | None, counter: Counter | None) -> Moment:
        return Moment(
            now_ms=_now_ms(),
            cold=self._pace.idle_s > self._conversation.policy.cache_ttl_s,
            target_tokens=target_tokens,
            counter=counter,
        )

    def _note_plan(self, plan: Plan, degraded_before: str) -> bool:
        """Keep and report what a plan did. Returns whether there is anything to tell the servers."""
        self._waited_turns += plan.reason == "not_ready"
        if plan.reason == "no_valid_boundary":
            self._outbox.tell(self._no_boundary(plan), _now_ms())
        if not plan.records or self._conversation.policy.mode != "on":
            return plan.reason == "no_valid_boundary"
        spans = [record for record in plan.records if record.stands_for_span]
        self.last_record = spans[-1] if spans else plan.records[-1]
        for event in events_of(plan, self.name, self._turn_id(), degraded_before, self._waited_turns):
            self._outbox.tell(event, _now_ms())
        self._waited_turns = 0 if spans else self._waited_turns
        self._put_records()
        return True

    def _no_boundary(self, plan: Plan) -> CompactionFailed:
        watermark = plan.active.end
        return CompactionFailed(
            session_id=self.name,
            turn_id=self._turn_id(),
            watermark_before=watermark,
            span_message_count=len(self._conversation.ledger) - watermark,
            failure_mode="no_valid_boundary",
        )

    def _turn_id(self) -> str:
        return str(len(self._conversation.ledger.turn_starts))

    def _put_records(self) -> None:
        """Records go out with how the session stands, also before its first publish in this process."""
        self._outbox.keep_records(self._conversation.records)
        self._put_standing(None)

    def _put_standing(self, turn_id: str | None) -> None:
        conversation, policy = self._conversation, self._conversation.policy
        standing = msgspec.structs.replace(conversation.standing(turn_id), parent_session=self._parent)
        wanted = conversation.wants_work(standing)
        uploads = wanted or standing.pending_tokens >= policy.upload_ratio * policy.threshold
        self._outbox.put(
            wire.Delta(
                workspace=self.workspace,
                session=self.name,
                standing=standing,
                due_in_s=0.0 if wanted else None,
                upload=policy.mode != "off" and uploads,
            )
        )

    def _take_records(self, encoded: tuple[bytes, ...]) -> None:
        try:
            theirs = [decode_record(record) for record in encoded]
        except UnusableRecord as error:
            _log.warning("foldahead: records of session %s left out: %s", self.name, error)
            return
        known = {record.identity for record in theirs}
        ours = [record for record in self._conversation.records if record.identity not in known]
        self._conversation.replace_records([*theirs, *ours])
        self._outbox.keep_records(self._conversation.records)
        spans = self._conversation.active.spans
        self.last_record = self.last_record or (spans[-1] if spans else None)

    def _apply_overrides(self) -> None:
        """The session's own policy with the workspace's central values over it; said once when they do not fit."""
        try:
            values = msgspec.json.decode(self._overrides, type=dict[str, Any]) if self._overrides else {}
            own = {name: getattr(self._own_policy, name) for name in self._own_policy.__struct_fields__}
            self._conversation.policy = policy_from(own | values) if values else self._own_policy
        except (msgspec.DecodeError, InvalidPolicy, TypeError) as error:
            self._conversation.policy = self._own_policy
            _log.warning("foldahead: policy overrides of workspace %s left out: %s", self.workspace, error)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
