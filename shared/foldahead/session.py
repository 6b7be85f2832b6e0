"""A session on the agent's side: plain functions on the agent's own list, with no I/O on the caller's thread."""

import logging
import math
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

import msgspec

from foldahead import keys, wire
from foldahead.core.conversation import Moment
from foldahead.core.dialect import Dialect
from foldahead.core.envelope import envelope_of, request_with
from foldahead.core.glancing import GlancingConversation
from foldahead.core.native import concerns_requests
from foldahead.core.plan import Plan
from foldahead.core.policy import Mode, Policy
from foldahead.core.record import Record
from foldahead.core.weigh import Counter
from foldahead.errors import InvalidHistory, SessionClosed, Unreachable
from foldahead.exchange import Exchange, now_ms
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
        self._conversation = GlancingConversation(dialect, policy, threading.Lock())
        self._conversation.prepare()
        self._outbox = Outbox(self.member, workspace, self._conversation, self._lock, on_event)
        self._exchange = Exchange(name, workspace, parent, self._conversation, self._outbox)
        self._carrier = carrier
        self._pace = Pace()
        self._requested_s = math.inf  # when the last request went out, on the monotonic clock; inf: none is known of
        self._closed = False
        self._said_usage = False

    # -- a turn ----------------------------------------------------------------------------------------------------

    def view(self, history: list[Any], target_tokens: int | None = None, counter: Counter | None = None) -> list[Any]:
        """What to send in place of the history; the history itself when nothing is to be done.

        With `target_tokens` (the room of the backend about to be called) and `counter` (tokens of a list of messages
        in that backend's units), acceptance and truncation are judged by that pair and no other.
        Raises `InvalidHistory` for a message that is none, `SessionClosed`.
        """
        return self._turn(history, None, self._idle_s(), target_tokens, counter)

    def request(self, **kwargs: Any) -> dict[str, Any]:
        """A whole request with the view in place of `messages`; betas and parameters that the view needs are added.

        Raises TypeError without `messages`, and what `view` raises.
        """
        if "messages" not in kwargs:
            raise TypeError("request: expected messages=[...] among the arguments")
        history, conversation, view = kwargs["messages"], self._conversation, None
        # Most turns end here. Each step costs microseconds in a process that slept since the last one, so it has few.
        with self._lock:
            idle_s = self._idle_s()
            calm = None if self._closed or self._outbox.has_news else conversation.calm
            if calm is not None and calm.is_plain:
                view = conversation.glance(history, idle_s, kwargs.get("model") or "")
        if view is None:
            view = self._turn(history, kwargs, idle_s)
        elif not conversation.view_marks:  # what is glanced at here needs nothing else, and no breakpoint is too many
            kwargs["messages"] = view
            return kwargs
        if view is history and conversation.policy.tail_thinking != "drop_block":
            return kwargs
        return request_with(
            view,
            kwargs,
            conversation.dialect,
            conversation.policy,
            marks=conversation.view_marks,
            shows_block=conversation.shows_block,
        )

    def publish(self, history: list[Any], usage: Any = None, turn_id: str | int | None = None) -> None:
        """Tell the servers how the session stands after a turn. Never waits.

        `usage` is the provider's for the request just answered, None or one that says nothing if there is none;
        `turn_id` the caller's name for the turn. Raises `InvalidHistory`, `SessionClosed`.
        """
        conversation = self._conversation
        with self._lock:
            self._begin(history)
            conversation.observe(history)
            if usage is not None and not conversation.note_usage(usage) and not self._said_usage:
                self._said_usage = True
                _log.warning("foldahead: usage of session %s cannot be read, it is left out", self.name)
            self._pace.note_publish(conversation.total_tokens(), conversation.growth)
            self._exchange.put_standing(None if turn_id is None else str(turn_id))
            conversation.prepare()
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
            if answer is not None and answer.standing is not None and not self._pace.is_known:
                self._adopt(answer.standing, answer.idle_s)
            self._conversation.prepare()
        return answer is not None and answer.known and bool(answer.standing or answer.records or answer.ready)

    def _adopt(self, standing: wire.Standing, idle_s: float) -> None:
        """Go on where another process stopped."""
        conversation = self._conversation
        conversation.calibration = standing.calibration
        conversation.model = conversation.model or standing.model
        conversation.stalled = standing.stalled
        conversation.growth.note(int(standing.growth_tokens), standing.interval_s)
        self._pace.take_over(standing.pending_tokens + standing.tail_tokens, idle_s)
        self._requested_s = monotonic() - idle_s

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
        self.policy = msgspec.structs.replace(self._exchange.own_policy, mode=mode)

    @property
    def policy(self) -> Policy:
        """The policy in force, with the workspace's overrides as they were last heard of."""
        return self._conversation.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        with self._lock:
            self._catch_up()
            self._exchange.own_policy = policy

    @property
    def plan(self) -> Plan:
        """What the last view was and why."""
        with self._lock:
            self._catch_up()
            return self._conversation.plan

    @property
    def last_record(self) -> Record | None:
        """The last thing that made the view differ from the history; None while they are the same."""
        return self._exchange.last_record

    @property
    def records(self) -> tuple[Record, ...]:
        """Every difference between history and view so far, oldest first: what `replay` needs besides the history."""
        return tuple(self._conversation.records)

    @property
    def has_ready(self) -> bool:
        """Whether a summary is at hand that the view does not show yet."""
        with self._lock:
            self._catch_up()
            return self._conversation.has_ready

    @property
    def standing(self) -> wire.Standing:
        """How the session stands: counts and heads of the history as last seen, as a publish tells them."""
        with self._lock:
            self._catch_up()
            return self._conversation.standing()

    def pin(self, message: Any) -> None:
        """Keep a message of the history in every view, with its tool cycle. Raises ValueError when it is not there."""
        with self._lock:
            self._check_open()
            self._catch_up()
            self._conversation.pin(message, now_ms())
            self._exchange.put_records()
        self._carrier.announce(self._outbox)

    def rejected(self, error: Exception) -> None:
        """Say that the provider refused the last request: the history is given back, the summary put in quarantine."""
        with self._lock:
            self._check_open()
            self._catch_up()
            self._exchange.note_rejection(self._conversation.reject(now_ms(), error), error)
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
        """After a fork: another thread of the parent may have held a lock at that moment, and been half through."""
        if self._lock.locked():
            self._outbox.edit_noticed = self._outbox.has_news = True
        self._lock = self._outbox.lock = threading.Lock()
        self._conversation.guard_with(threading.Lock())

    # -- inside a turn ---------------------------------------------------------------------------------------------

    def _turn(
        self,
        history: list[Any],
        request: dict[str, Any] | None,
        idle_s: float,
        target_tokens: int | None = None,
        counter: Counter | None = None,
    ) -> list[Any]:
        """The view for a turn; `request` is what it is for, where that is known.

        `idle_s`: seconds since the last one. A glance, if none was taken yet, may do here too.
        """
        conversation, model = self._conversation, None
        with self._lock:
            self._check(history)
            if self._outbox.has_news:
                self._begin(history)  # it may be a block, or a policy that asks for one
            if request is not None:
                model = _name_of(request.get("model"))
                if (calm := conversation.calm) is None or not calm.is_plain:
                    self._note_envelope(request)
            if target_tokens is None and counter is None:
                view = conversation.glance(history, idle_s, model)
                if view is not None:
                    return view
            self._catch_up()
            conversation.model = conversation.model if model is None else model
            degraded_before, recorded = conversation.degraded, len(conversation.records)
            cold = idle_s > conversation.policy.cache_ttl_s
            moment = Moment(now_ms=now_ms(), cold=cold, target_tokens=target_tokens, counter=counter)
            view = conversation.view(history, moment)
            news = self._exchange.note(conversation.plan, degraded_before)
            if not news and len(conversation.records) != recorded:
                self._exchange.put_records()  # thinking that went because the session was turned off or on: in no plan
                news = True
        if news:
            self._carrier.announce(self._outbox)
        return view

    def _idle_s(self) -> float:
        """A request is going out. Returns seconds since the last one; less than none when none is known of."""
        now_s = monotonic()
        idle_s, self._requested_s = now_s - self._requested_s, now_s
        return idle_s

    def _note_envelope(self, request: dict[str, Any]) -> None:
        """Keep what a block in this request's view, or of a summary made from it, depends on."""
        conversation = self._conversation
        self._catch_up()  # with what that turn's request held
        if concerns_requests(conversation.policy, conversation.active):
            self._outbox.put_envelope(envelope_of(request))
        else:
            conversation.envelope = ""

    def _begin(self, history: list[Any]) -> None:
        """What a call does first: is it to be taken at all, and what has been heard meanwhile."""
        self._check(history)
        self._catch_up()
        self._exchange.take_in(history)

    def _check(self, history: object) -> None:
        self._check_open()
        if not isinstance(history, list):
            raise InvalidHistory(f"history: expected a list of messages, got {type(history).__name__}")

    def _catch_up(self) -> None:
        """Read, and account for, a turn that was only glanced at."""
        if self._conversation.is_behind:
            self._conversation.catch_up()
            self._exchange.note(self._conversation.plan, "")

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed(f"session {self.name!r} was closed: open it again with Foldahead.session")


def _name_of(model: object) -> str:
    """A model's name. A member of an enum of texts is sent as its value, and so is that its name."""
    return str.__str__(model) if isinstance(model, str) else str(model or "")
