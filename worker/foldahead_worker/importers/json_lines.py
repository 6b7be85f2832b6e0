"""JSON Lines that are no Claude Code log: a message a line, or a request, trajectory or run a line."""

from __future__ import annotations

from typing import Any

from foldahead_worker.importers import chat, document, foreign
from foldahead_worker.importers.errors import BadMessage, UnknownFormat
from foldahead_worker.importers.messages import fault_of, looks_like_one
from foldahead_worker.importers.notes import Notes
from foldahead_worker.importers.reading import Line
from foldahead_worker.importers.session import ImportedSession, unique
from foldahead_worker.importers.shape import is_object, named


def sessions_of(lines: tuple[Line, ...], name: str, wanted: str, notes: Notes) -> list[ImportedSession]:
    """The sessions in the lines; a line that makes no sense is noted. Raises UnknownFormat when none does."""
    foreign.refuse([line.value for line in lines])
    first = next((line.value for line in lines if _is_known(line.value)), None)
    if first is None:
        found = named(lines[0].value) if lines else "nothing"
        raise UnknownFormat(f"line {lines[0].number if lines else 1}: {found}; expected {document.ACCEPTED}")
    if looks_like_one(first):
        return [_one_conversation(lines, name, wanted, notes)]
    return _a_run_a_line(lines, wanted, notes)


def _is_known(value: Any) -> bool:
    return looks_like_one(value) or (is_object(value) and document.messages_key(value) is not None)


def _one_conversation(lines: tuple[Line, ...], name: str, wanted: str, notes: Notes) -> ImportedSession:
    values: list[Any] = []
    for line in lines:
        fault = fault_of(line.value)
        if fault:
            notes.add(f"line {line.number}{fault}; passed over")
        else:
            values.append(line.value)
    return chat.session_of(values, {}, name, "messages", wanted, notes)


def _a_run_a_line(lines: tuple[Line, ...], wanted: str, notes: Notes) -> list[ImportedSession]:
    sessions: list[ImportedSession] = []
    taken: set[str] = set()
    for line in lines:
        key = document.messages_key(line.value) if is_object(line.value) else None
        if key is None:
            notes.add(f"line {line.number}: {named(line.value)}; expected a list of messages in it, passed over")
            continue
        name = unique(document.label_of(line.value) or f"line{line.number}", taken)
        try:
            sessions.append(document.run_of(line.value, key, name, f"line {line.number}: {key}", wanted, notes))
        except BadMessage as fault:
            notes.add(f"{fault}; passed over")
    if not sessions:
        raise UnknownFormat(f"no line holds messages that can be read; expected {document.ACCEPTED}")
    return sessions
