"""The door of the agent's side: `Foldahead` hands out sessions; one link per Redis URL carries for all of them."""

import logging
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from foldahead.core.dialects import get_dialect
from foldahead.core.policy import Policy
from foldahead.link import Link, LinkCounters
from foldahead.session import Session

MOST_SESSIONS = 10_000
"""Sessions kept in a process; the one not used for longest goes first, and is opened again by `resume`."""

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

        `parent` is the session that this one is a sub-agent of, for the books. Raises `UnknownDialect`.
        """
        key = (workspace, name)
        chosen = get_dialect(dialect)
        with self._lock:
            session = self._sessions.get(key)
            if session is None or session.closed:
                session = Session(name, workspace, chosen, policy or Policy(), self._link, parent, self._hear)
                self._sessions[key] = session
            self._sessions.move_to_end(key)
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return session

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
        except Exception:  # the caller's function, on a thread that must live
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
