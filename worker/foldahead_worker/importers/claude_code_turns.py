"""From the lines of one Claude Code conversation to the list of messages that was sent."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from foldahead_worker.importers.claude_code_line import ASSISTANT, USER, LogLine

SYNTHETIC = "<synthetic>"  # the model of assistant messages that Claude Code wrote itself


class Sent(Struct, frozen=True):
    """The list of messages, and what is known about its requests (see ImportedSession)."""

    messages: list[dict[str, Any]]
    usages: tuple[tuple[int, dict[str, Any]], ...]
    restarts: tuple[int, ...]
    model: str | None


class _Unit:
    """The lines of one message (an assistant's or the user's), and those that answer its calls."""

    def __init__(self, line: LogLine, restarted: bool) -> None:
        self.lines = [line]
        self.results: list[LogLine] = []
        self.restarted = restarted


class Turns:
    """Takes lines in the file's order."""

    def __init__(self) -> None:
        self._units: list[_Unit] = []
        self._by_message_id: dict[str, _Unit] = {}
        self._callers: dict[str, list[tuple[int, _Unit]]] = {}  # by call id: where in the units, and the unit
        self._restarted = False

    def restart(self) -> None:
        """From here on the recording agent sent a summary in place of what came before."""
        self._restarted = True

    def add(self, line: LogLine) -> None:
        """Add a line that is a message, or a part of one."""
        if line.role == ASSISTANT:
            self._add_assistant(line)
        elif not self._add_results(line):
            self._units.append(self._unit(line))

    def sent(self) -> Sent:
        """The list so far."""
        messages: list[dict[str, Any]] = []
        usages: list[tuple[int, dict[str, Any]]] = []
        restarts: list[int] = []
        for unit in self._units:
            if unit.restarted:
                restarts.append(len(messages))
            usage = _usage(unit.lines)
            if usage:
                usages.append((len(messages), usage))
            messages.append(_message(unit.lines[0].role, unit.lines))
            if unit.results:
                messages.append(_message(USER, unit.results))
        return Sent(messages, tuple(usages), tuple(restarts), self._model())

    def _unit(self, line: LogLine) -> _Unit:
        unit = _Unit(line, self._restarted)
        self._restarted = False
        return unit

    def _add_assistant(self, line: LogLine) -> None:
        unit = self._by_message_id.get(line.message_id or "")
        if unit is None:
            unit = self._unit(line)
            self._units.append(unit)
            if line.message_id:
                self._by_message_id[line.message_id] = unit
        else:
            unit.lines.append(line)
        for call in line.called:
            self._callers.setdefault(call, []).append((len(self._units), unit))

    def _add_results(self, line: LogLine) -> bool:
        """Put results behind the message that made the calls. An id may come again: its last use counts."""
        callers = [self._callers[call][-1] for call in line.answered if call in self._callers]
        if not callers:
            return False
        _, last_caller = max(callers, key=lambda caller: caller[0])
        last_caller.results.append(line)
        return True

    def _model(self) -> str | None:
        for unit in reversed(self._units):
            if unit.lines[-1].model not in (None, SYNTHETIC):
                return unit.lines[-1].model
        return None


def _message(role: str, lines: list[LogLine]) -> dict[str, Any]:
    """One message of several lines: their blocks in order, but results first, as the provider wants them."""
    if len(lines) == 1:
        return {"role": role, "content": lines[0].content}
    blocks = [block for line in lines for block in line.blocks]
    if role == USER:
        blocks.sort(key=lambda block: block.get("type") != "tool_result")
    return {"role": role, "content": blocks}


def _usage(lines: list[LogLine]) -> dict[str, Any] | None:
    """The usage of the last line: the lines of one message are written while its output still grows."""
    for line in reversed(lines):
        if line.role == ASSISTANT and any(isinstance(n, int) and n > 0 for n in line.usage.values()):
            return line.usage
    return None
