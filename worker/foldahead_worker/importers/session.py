"""What an importer gives: sessions, and notes about what was passed over."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from foldahead_worker.importers.errors import SessionChoice
from foldahead_worker.importers.shape import printable

SHOWN_NAMES = 20  # an error stays one readable line, also for a file of a thousand runs


class ImportedSession(Struct, frozen=True):
    """One recorded conversation, as the agent sent it to its provider.

    `messages` are the file's own dicts where it holds a list of messages; where it holds log lines, or fields
    of a harness in the messages, what was sent is put together from them. `usages` pairs the index of an
    assistant message with what the provider counted for it. `restarts` are indices of messages before which
    the recording agent compacted by itself: usage from there on counts a shorter list than this one, so a
    difference across it means nothing. `recorded_messages` is how many the file counts before grouping: log
    lines, or entries of a list.
    """

    name: str
    dialect: str
    messages: list[dict[str, Any]]
    system: Any = None
    tools: Any = None
    model: str | None = None
    parent: str | None = None
    usages: tuple[tuple[int, dict[str, Any]], ...] = ()
    restarts: tuple[int, ...] = ()
    recorded_messages: int = 0


class ImportResult(Struct, frozen=True):
    """The sessions of one file, in the file's order, with names unique in it; `notes` are one line each."""

    sessions: tuple[ImportedSession, ...]
    notes: tuple[str, ...]
    file: str = ""


def unique(name: str, taken: set[str]) -> str:
    """A name that is not taken yet, and takes it: `run`, `run#2`, `run#3`."""
    shown = printable(name)
    candidate, count = shown, 1
    while candidate in taken:
        count += 1
        candidate = f"{shown}#{count}"
    taken.add(candidate)
    return candidate


def pick(result: ImportResult, session_name: str | None) -> ImportedSession:
    """The session of that name, or the only one. Raises SessionChoice, which lists the names."""
    if session_name is None and len(result.sessions) == 1:
        return result.sessions[0]
    for session in result.sessions:
        if session.name == session_name:
            return session
    names = ", ".join(session.name for session in result.sessions[:SHOWN_NAMES])
    more = len(result.sessions) - SHOWN_NAMES
    listed = f"{names} and {more} more" if more > 0 else names
    if session_name is None:
        reason = f"holds {len(result.sessions)} sessions, name one of them: {listed}"
    else:
        reason = f"has no session {session_name!r}; it holds: {listed}"
    raise SessionChoice(f"{result.file}: {reason}" if result.file else reason)
