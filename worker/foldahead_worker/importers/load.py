"""The importers' door: from a file to its sessions."""

from __future__ import annotations

from pathlib import Path

from foldahead_worker.importers import claude_code, document, json_lines
from foldahead_worker.importers.dialect import ANTHROPIC, FORMATS, OPENAI
from foldahead_worker.importers.errors import UnknownFormat, UnreadableFile
from foldahead_worker.importers.notes import Notes
from foldahead_worker.importers.reading import Document, Line, Lines, read
from foldahead_worker.importers.session import ImportedSession, ImportResult
from foldahead_worker.importers.shape import is_array, printable


def load(path: Path, format: str = "auto") -> ImportResult:  # noqa: A002 - the name that --format has
    """Read the recorded sessions of a file.

    `format` is "anthropic", "openai" or "auto" (found by what the messages look like). Raises UnreadableFile,
    whose text is one line that names the file, the place in it, and what was expected there.
    """
    notes = Notes()
    file = printable(str(path))
    try:
        if format not in FORMATS:
            raise UnknownFormat(f"format {format!r}; expected one of {', '.join(FORMATS)}")
        sessions = _sessions(read(path, notes), printable(path.stem), format, notes)
    except UnreadableFile as fault:
        raise fault.in_file(file) from fault
    return ImportResult(tuple(sessions), notes.listed(), file)


def _sessions(content: Document | Lines, name: str, wanted: str, notes: Notes) -> list[ImportedSession]:
    lines = _log_lines(content)
    if any(claude_code.is_record(line.value) for line in lines):
        if wanted == OPENAI:
            raise UnknownFormat(f"a Claude Code log holds {ANTHROPIC} messages, not {OPENAI}")
        return claude_code.sessions_of(lines, name, notes)
    if isinstance(content, Document):
        return document.sessions_of(content.value, name, wanted, notes)
    return json_lines.sessions_of(lines, name, wanted, notes)


def _log_lines(content: Document | Lines) -> tuple[Line, ...]:
    """The content as lines of a log: a log of one line is a document too, and some tools write a list."""
    if isinstance(content, Lines):
        return content.lines
    values = content.value if is_array(content.value) else [content.value]
    return tuple(Line(number, value) for number, value in enumerate(values, 1))
