"""The agent's side of Redis: one thread, one connection, nothing on the caller's thread but a note.

A session is announced when it has news. The thread asks it how it stands, publishes that, hands back what
Redis answers, and looks once a second for sessions that wait. Everything is level-triggered: a lost call, a
server that came back empty, a process that forked are healed by telling again what Redis does not have.
"""

import atexit
import logging
import os
import threading
import time
import weakref
from collections import Counter
from functools import cache

from foldahead import wire
from foldahead.bell import Bell
from foldahead.calls import Call, close_call, forget_call, resume_call
from foldahead.courier import Courier, Errand, LinkCounters
from foldahead.errors import Unreachable
from foldahead.line import Line
from foldahead.mailbox import Correspondent

__all__ = ["Correspondent", "Link", "LinkCounters"]

LOOK_EVERY_S = 1.0
LINGER_S = 0.002
"""How long news are gathered before they go out in one pipeline."""
ERRAND_RETRY_S = 0.25
"""With Redis away a caller that waits makes the thread try at most this often; others are told at once."""
EXIT_TIMEOUT_S = 1.0
MAX_SESSIONS = 10_000
"""Announced and not yet sent; beyond that the oldest news wait for their session's next publish."""

_log = logging.getLogger("foldahead")
_links: "weakref.WeakSet[Link]" = weakref.WeakSet()


class Link:
    """All sessions' connection to one Redis.

    Safe to call from any thread; on Redis's account nothing raises but `forget`.
    """

    def __init__(self, url: str) -> None:
        """Raises ValueError when `url` names no Redis server. Connects at the first announcement."""
        self._url = url
        self._inherited: list[Line] = []
        self._start_afresh()
        _links.add(self)
        _install_hooks()

    def announce(self, session: Correspondent) -> None:
        """Note that a session has news. Does no I/O; the news go out a few milliseconds later."""
        member = session.member
        with self._mutex:
            queued = member in self._announced
            if self._closed:
                self._tally["dropped_sessions"] += 1
                return
            self._announced[member] = session
            if not queued:
                self._keep_bounds()
                self._start_thread()
                if not self._lingers:
                    self._bell.ring()

    def resume(self, session: Correspondent, timeout_s: float) -> wire.Answer | None:
        """All that is known of a session. Waits up to `timeout_s`: a watcher may restore what Redis lost.

        None where Redis could not be asked in time; an answer with `known` false where it knows nothing.
        """
        errand = self._send(resume_call(session.member), session, timeout_s)
        return errand.answer

    def forget(self, session: Correspondent, timeout_s: float) -> None:
        """Delete what Redis has of a session, and have the database do so. Raises `Unreachable`."""
        with self._mutex:
            self._announced.pop(session.member, None)
        errand = self._send(forget_call(session.member), session, timeout_s)
        if errand.error is not None:
            raise errand.error
        if not errand.done.is_set():
            raise Unreachable(f"Redis did not answer within {timeout_s:g} s")

    def leave(self, session: Correspondent) -> None:
        """Say that a session wants no work any more, unless another process goes on with it. Does not wait."""
        with self._mutex:
            if not self._closed and self._start_thread():
                call = close_call(session.member, self._courier.incarnation)
                self._errands.append(Errand(call, session, time.monotonic()))
                self._bell.ring()

    def flush(self, timeout_s: float) -> bool:
        """Wait until Redis has acknowledged all that was announced. Returns whether it did in time."""
        return self._drain(timeout_s, give_up_early=False)

    def close(self, timeout_s: float) -> bool:
        """Send what is queued, then end the thread; no waiting with Redis away. Returns whether all went."""
        until_s = time.monotonic() + timeout_s
        drained = self._drain(timeout_s, give_up_early=True)
        with self._mutex:
            self._closed = True
            self._bell.ring()
            thread = self._thread
        if thread is not None:
            thread.join(max(0.0, until_s - time.monotonic()))
        return drained

    def counters(self) -> LinkCounters:
        """A snapshot."""
        with self._mutex:
            boxes = list(self._courier.mailboxes.values())
            tally = {name: self._tally[name] for name in LinkCounters.__struct_fields__ if name in self._tally}
            queued = len(self._announced)
        return LinkCounters(
            **tally,
            queued=queued,
            kept_bytes=sum(box.kept_bytes for box in boxes),
            down=self._courier.line.is_down,
        )

    def start_afresh_in_child(self) -> None:
        """After a fork: connection, thread and incarnation of its own. The parent sends what was queued."""
        # Kept, not closed: the parent's thread may have held a lock of the client at the moment of the fork.
        self._inherited.append(self._courier.line)
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._mutex = threading.Lock()
        self._bell = Bell(self._mutex)
        self._quiet = threading.Condition(self._mutex)
        self._announced: dict[str, Correspondent] = {}
        self._errands: list[Errand] = []
        self._tally: Counter[str] = Counter()
        self._courier = Courier(Line(self._url), self._tally)
        self._thread: threading.Thread | None = None
        self._closed = self._lingers = self._busy = self._hurry = False
        self._flushing = 0
        self._look_at_s: float | None = None

    def _keep_bounds(self) -> None:
        while len(self._announced) > MAX_SESSIONS:
            del self._announced[next(iter(self._announced))]
            self._tally["dropped_sessions"] += 1

    def _start_thread(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="foldahead-link", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is going down, or the machine has no thread left
                return False
            self._thread = thread
        return True

    def _send(self, call: Call, session: Correspondent, timeout_s: float) -> Errand:
        errand = Errand(call, session, time.monotonic() + timeout_s)
        with self._mutex:
            if self._closed or not self._start_thread():
                errand.settle(error=Unreachable("the link is closed"))
            else:
                self._errands.append(errand)
                self._bell.ring()
        errand.done.wait(timeout_s)
        return errand

    def _drain(self, timeout_s: float, *, give_up_early: bool) -> bool:
        with self._mutex:
            if self._is_quiet() or self._closed or not self._start_thread():
                return self._is_quiet()
            failed = self._tally["failed_exchanges"] + self._busy
            self._flushing += 1
            self._hurry = True
            self._bell.ring()
            try:
                self._quiet.wait_for(
                    lambda: self._is_quiet() or (give_up_early and self._tally["failed_exchanges"] > failed),
                    timeout_s,
                )
            finally:
                self._flushing -= 1
            return self._is_quiet()

    def _is_quiet(self) -> bool:
        return not self._announced and not self._busy

    def _run(self) -> None:
        courier = self._courier
        while (work := self._next_work()) is not None:
            errands, announced, now_s = work
            waiting: list[Errand] = []
            failed = False
            try:
                announced_again, waiting = courier.round(errands, announced, now_s)
                announced.update(announced_again)
            except Unreachable as error:
                failed = True
                self._tally["failed_exchanges"] += 1
                self._look_at_s = now_s  # as soon as Redis is back, all that it may have lost is found out
                for errand in errands:
                    errand.settle(error=error)
            except Exception:  # noqa: BLE001 - the thread must live; what it held is told again at the next publish
                self._tally["faults"] += 1
                _log.exception("foldahead: a round of the link failed")
                announced.clear()
            self._take_back(announced, waiting, failed)
        courier.line.close()

    def _take_back(self, unsent: dict[str, Correspondent], waiting: list[Errand], failed: bool) -> None:
        """What was not sent goes before what has come since; behind it where it may be why a call failed."""
        with self._mutex:
            later = self._announced
            self._announced = later | unsent | later if failed else unsent | later
            self._keep_bounds()
            self._errands += waiting
            self._busy = False
            self._quiet.notify_all()

    def _next_work(self) -> tuple[list[Errand], dict[str, Correspondent], float] | None:
        """Wait until something is to be done. None: the link was closed."""
        with self._mutex:
            while not self._closed:
                now_s = time.monotonic()
                pause_s = self._pause_s(now_s)
                waited_for = self._errands or self._flushing
                if pause_s == 0.0 and (waited_for or self._lingers):
                    self._lingers = False
                    return self._take_work(now_s)
                # Who announces does not wake a thread that only lingers; who waits does.
                self._lingers = pause_s == 0.0
                self._bell.sleep(LINGER_S if self._lingers else pause_s)
        return None

    def _take_work(self, now_s: float) -> tuple[list[Errand], dict[str, Correspondent], float]:
        due = [errand for errand in self._errands if errand.not_before_s <= now_s]
        self._errands = [errand for errand in self._errands if errand.not_before_s > now_s]
        announced, self._announced = self._announced, {}
        self._busy, self._hurry = True, False
        if self._look_at_s is not None and now_s >= self._look_at_s:
            self._look_at_s = now_s + LOOK_EVERY_S if self._courier.schedule_looks(now_s) else None
        if self._look_at_s is None and (announced or due):
            self._look_at_s = now_s + LOOK_EVERY_S
        return due, announced, now_s

    def _pause_s(self, now_s: float) -> float | None:
        """Seconds until there is something to do; None: until someone says so."""
        line = self._courier.line
        may_try = self._hurry or now_s >= line.next_try_s
        if not may_try and not (self._errands and now_s >= line.tried_at_s + ERRAND_RETRY_S):
            self._turn_away()
            waits = self._announced or self._look_at_s is not None
            return line.next_try_s - now_s if waits else None
        if self._announced or self._courier.looks_pending:
            return 0.0
        moments = [errand.not_before_s for errand in self._errands]
        if self._look_at_s is not None:
            moments.append(self._look_at_s)
        return max(0.0, min(moments) - now_s) if moments else None

    def _turn_away(self) -> None:
        """Redis was away a moment ago: nobody waits for the next attempt."""
        for errand in self._errands:
            errand.settle(error=Unreachable("Redis is away; it is tried again in a moment"))
        self._errands = []


@cache
def _install_hooks() -> None:
    atexit.register(_close_all)
    os.register_at_fork(after_in_child=_start_all_afresh)


def _close_all() -> None:
    until_s = time.monotonic() + EXIT_TIMEOUT_S
    for link in list(_links):
        link.close(max(0.0, until_s - time.monotonic()))


def _start_all_afresh() -> None:
    for link in list(_links):
        link.start_afresh_in_child()
