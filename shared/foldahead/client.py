"""The door of the agent's side: `Foldahead` hands out sessions; one link per Redis URL carries for all of them."""

import logging
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from foldahead import keys
from foldahead.core.dialects import get_dialect
from foldahead.core.policy import Policy
from foldahead.link import Link, LinkCounters
from foldahead.session import Session

MOST_SESSIONS = 10_000
"""Sessions kept in a process; the one not used for longest goes first, and is opened again by `resume`."""
IDLE_S = 3_600.0
"""A session not asked for so long is given up as well: it holds on to the agent's messages."""

_log = logging.getLogger("foldahead")


class Foldahead:
    """Compaction ahead of time for the sessions of this process.

    `on_event` hears what happened, as a dict {type, workspace, created_at_ms, payload, sensitivity}, off the turn's
    path, on the link's thread. Nothing is connected before the first publish or resume.
    """

    def __init__(self, url: str, *, on_event: Callable[[dict[str, Any]], None] | None = None) -> None:
        self._link = Link(url)
        self._on_event = on_event
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._used_s: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()
        _register(self)

    def session(
        self,
        name: str,
        *,
        workspace: str = "default",
        dialect: str = "anthropic",
        policy: Policy | None = None,
        parent: str = "",
    ) -> Session:
        """The session of that name, the same object each time while this process remembers it.

        `parent` is the session that this one is a sub-agent of, for the books. A `policy` given for a session that is
        open takes the place of its own. Raises `UnknownDialect`, and ValueError for a name that is empty or over 512
        bytes, or for another dialect than that of the open session.
        """
        chosen = get_dialect(dialect)
        for value, what in ((name, "session name"), (workspace, "workspace")):
            if not value or len(value.encode("utf-8", "surrogatepass")) > keys.MOST_NAME_BYTES:
                raise ValueError(f"{what}: expected 1 to {keys.MOST_NAME_BYTES} bytes, got {value[:40]!r}")
        with self._lock:
            session = self._sessions.get((workspace, name))
            if session is None or session.closed:
                session = Session(name, workspace, chosen, policy or Policy(), self._link, parent, self._hear)
            elif session.dialect != dialect:
                raise ValueError(f"session {name!r} is open with dialect {session.dialect!r}, not {dialect!r}")
            elif policy is not None:
                session.policy = policy
            self._keep((workspace, name), session)
        return session

    def _keep(self, key: tuple[str, str], session: Session) -> None:
        now_s = time.monotonic()
        self._sessions[key] = session
        self._sessions.move_to_end(key)
        self._used_s[key] = now_s
        while self._sessions:
            oldest = next(iter(self._sessions))
            if len(self._sessions) <= MOST_SESSIONS and now_s - self._used_s[oldest] < IDLE_S:
                break
            del self._sessions[oldest], self._used_s[oldest]

    def flush(self, timeout: float) -> bool:
        """Wait until all that was published is with Redis; False when `timeout` seconds were not enough."""
        return self._link.flush(timeout)

    def close(self, timeout: float = 1.0) -> None:
        """Send what is left, for up to `timeout` seconds, and stop the thread."""
        self._link.close(timeout)

    def counters(self) -> LinkCounters:
        """What the link did and what it had to drop."""
        return self._link.counters()

    def start_afresh_in_child(self) -> None:
        """After a fork: locks of its own. The link does the same for itself."""
        self._lock = threading.Lock()
        for session in self._sessions.values():
            session.start_afresh_in_child()

    def _hear(self, event: bytes) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(msgspec.json.decode(event))
        except Exception:  # noqa: BLE001 - the caller's function, on a thread that must live
            _log.exception("foldahead: on_event failed")


_alive: "weakref.WeakSet[Foldahead]" = weakref.WeakSet()


@cache
def _install_hook() -> None:
    os.register_at_fork(after_in_child=_start_all_afresh)


def _register(fold: Foldahead) -> None:
    _install_hook()
    _alive.add(fold)


def _start_all_afresh() -> None:
    for fold in list(_alive):
        fold.start_afresh_in_child()
