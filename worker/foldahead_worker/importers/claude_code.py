"""Claude Code's session log (JSON Lines): which lines are messages, and of which conversation.

A log is written as things happen. One assistant message is spread over several lines that share `message.id`,
with results of its calls between them; lines of sub-agents (`isSidechain`) and of other sessions may stand in
it. What was sent is each assistant message whole, then its results in one user message, then what the user
said. `isMeta` lines are hidden from the user and sent to the model: they stay. So does the summary of Claude
Code's own compaction: the conversation goes on across it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from foldahead_worker.importers.claude_code_branches import without_abandoned
from foldahead_worker.importers.claude_code_line import LogLine
from foldahead_worker.importers.claude_code_turns import Turns
from foldahead_worker.importers.dialect import ANTHROPIC
from foldahead_worker.importers.errors import UnknownFormat
from foldahead_worker.importers.notes import Notes
from foldahead_worker.importers.reading import Line
from foldahead_worker.importers.session import ImportedSession, unique
from foldahead_worker.importers.shape import is_object, named, printable, text_at

MESSAGE_KINDS = frozenset({"user", "assistant"})
# Kinds of lines that only such a log has; with them a file is one even when no message is in it.
OTHER_KINDS = frozenset({"file-history-snapshot", "queue-operation", "summary", "progress", "attachment"})

ConversationKey = tuple[str, str]  # session id, and the sub-agent ("" is the session itself)


def is_record(value: Any) -> bool:
    """Is this a line of a Claude Code log?"""
    if not is_object(value) or "role" in value:
        return False
    kind = text_at(value, "type") or ""
    if kind in MESSAGE_KINDS:
        return is_object(value.get("message")) or "uuid" in value
    return kind in OTHER_KINDS and bool({"sessionId", "uuid", "leafUuid", "messageId"} & value.keys())


def sessions_of(lines: tuple[Line, ...], name: str, notes: Notes) -> list[ImportedSession]:
    """The conversations of a log, sub-agents as sessions of their own. Raises UnknownFormat when it has none.

    `name` stands in for a session id where the log has none.
    """
    log = _log_lines(lines, notes)
    conversations = Conversations()
    for line in log:
        conversations.add(line)
    taken: set[str] = set()
    sessions = [
        session
        for key, members in conversations.members.items()
        if (session := _session(key, members, name, taken, notes))
    ]
    if not sessions:
        raise UnknownFormat("a Claude Code log without a user or assistant message")
    return sessions


def _log_lines(lines: tuple[Line, ...], notes: Notes) -> list[LogLine]:
    """Every line that has a place in a conversation; what has none is noted, all bookkeeping in one note."""
    kept: list[LogLine] = []
    bookkeeping: Counter[str] = Counter()
    for line in lines:
        if not is_object(line.value) or not isinstance(line.value.get("type"), str):
            notes.add(f"line {line.number}: {named(line.value)}; no line of a Claude Code log, passed over")
            continue
        read = LogLine.of(line.number, line.value)
        if read.kind in MESSAGE_KINDS and read.fault:
            notes.add(f"line {line.number}: {read.fault}; passed over")
        elif read.kind not in MESSAGE_KINDS:
            bookkeeping[read.kind] += 1
        kept.append(read)
    if bookkeeping:
        counts = ", ".join(f"{count} {printable(kind)}" for kind, count in bookkeeping.most_common(8))
        notes.add(f"lines that hold no message passed over: {counts}")
    return kept


class Conversations:
    """Sorts the lines of a log into conversations, in the order in which these begin."""

    def __init__(self) -> None:
        self.members: dict[ConversationKey, list[LogLine]] = {}
        self._session = ""
        self._main_of: dict[str, ConversationKey] = {}
        self._key_of_uuid: dict[str, ConversationKey] = {}
        self._last_side: dict[str, ConversationKey] = {}
        self._sides = 0
        self._seen: dict[tuple[ConversationKey, str], LogLine] = {}

    def add(self, line: LogLine) -> None:
        """Put a line where it belongs. A line that was logged twice (a resumed session) counts once."""
        self._session = line.session or self._session  # a line without one belongs to those before it
        key = self._side_key(line) if line.is_side else self._main_key(line)
        if line.uuid:
            first = self._seen.setdefault((key, line.uuid), line)
            if first is not line and (first.role, first.content) == (line.role, line.content):
                return
            self._key_of_uuid[line.uuid] = key
        self.members.setdefault(key, []).append(line)

    def _main_key(self, line: LogLine) -> ConversationKey:
        """The session's own; one whose first line hangs on another session (resumed) goes on in that one."""
        known = self._main_of.get(self._session)
        if known is not None:
            return known
        above = self._key_of_uuid.get(line.parent or "")
        key = above if above and not above[1] else (self._session, "")
        if line.uuid:
            self._main_of[self._session] = key
        return key

    def _side_key(self, line: LogLine) -> ConversationKey:
        """A sub-agent's conversation: by its id, else (older logs) by the root that its lines hang on."""
        main = self._main_of.get(self._session, (self._session, ""))[0]
        if line.agent:
            return (main, line.agent)
        above = self._key_of_uuid.get(line.parent or "")
        if above and above[1]:
            return above
        last = self._last_side.get(main)
        if last is None or (line.is_root and line.is_prompt):
            self._sides += 1
            last = self._last_side[main] = (main, f"sidechain{self._sides}")
        return last


def _session(
    key: ConversationKey, members: list[LogLine], name: str, taken: set[str], notes: Notes
) -> ImportedSession | None:
    """The list that was sent in one conversation; None where it has no message."""
    turns = Turns()
    recorded = 0
    for line in without_abandoned(members, notes):
        if line.is_boundary:
            turns.restart()
        elif line.is_api_error:
            notes.add(f"line {line.number}: an error that Claude Code shows as a message, passed over")
        elif line.is_message:
            recorded += 1
            turns.add(line)
    sent = turns.sent()
    if not sent.messages:
        return None
    main = printable(key[0]) or name
    return ImportedSession(
        name=unique(f"{main}/{key[1]}" if key[1] else main, taken),
        dialect=ANTHROPIC,
        messages=sent.messages,
        model=sent.model,
        parent=main if key[1] else None,
        usages=sent.usages,
        restarts=sent.restarts,
        recorded_messages=recorded,
    )
