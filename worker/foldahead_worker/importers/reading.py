"""From a path to JSON: one document, or JSON Lines.

JSON as Python reads it: NaN, Infinity and lone surrogates are let through, for they stand in real sessions. So do what
writers leave that were cut off: NULs, and two values on a line.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from foldahead_worker.importers.errors import FileRefused, NotJson
from foldahead_worker.importers.notes import Notes

MAX_FILE_BYTES = 256 * 1024 * 1024  # decoded and parsed in memory: some five times this
MAX_INTEGER_DIGITS = 4300  # Python's own limit for turning an integer into text and back
_FILLING = re.compile(r"[\s\0\ufeff]*")
_DECODER = json.JSONDecoder()


class Document(Struct, frozen=True):
    """The whole file is one JSON value."""

    value: Any


class Line(Struct, frozen=True):
    """One value of a JSON Lines file; `number` counts the file's lines from 1."""

    number: int
    value: Any


class Lines(Struct, frozen=True):
    """A JSON Lines file; lines that are no JSON are left out (and noted)."""

    lines: tuple[Line, ...]


def read(path: Path, notes: Notes) -> Document | Lines:
    """Read a file. Raises FileRefused or NotJson; broken lines among good ones become notes."""
    data = _bytes(path)
    if not data.strip():
        raise NotJson("is empty; expected JSON or JSON Lines")
    raw_lines = _text_lines(data)
    if None not in raw_lines:
        text = "\n".join(line for line in raw_lines if line is not None)
        try:
            return Document(_value(text))
        except NotJson as fault:
            return _lines_or_values(text, raw_lines, notes, str(fault))
    return _lines(raw_lines, notes, "is not text in UTF-8, UTF-16 or UTF-32; expected JSON or JSON Lines")


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            too_large = os.fstat(file.fileno()).st_size > MAX_FILE_BYTES
            data = b"" if too_large else file.read(MAX_FILE_BYTES + 1)  # a pipe's size shows in the reading only
    except IsADirectoryError as fault:
        raise FileRefused("is a directory; expected a file") from fault
    except ValueError as fault:  # a NUL in the path
        raise FileRefused(f"cannot be opened: {fault}") from fault
    except OSError as fault:
        raise FileRefused(f"cannot be read: {fault.strerror or fault}") from fault
    if too_large or len(data) > MAX_FILE_BYTES:
        raise FileRefused(f"is larger than {MAX_FILE_BYTES // 1024**2} MB, the most that is read")
    return data


def _text_lines(data: bytes) -> list[str | None]:
    """The lines, split at line feeds only (JSON texts may hold the others); None for what is no text."""
    encoding = json.detect_encoding(data)
    try:
        text = data.decode(encoding, "surrogatepass")
    except UnicodeDecodeError:
        return [_decoded(line) for line in data.split(b"\n")]
    return [*text.split("\n")]


def _decoded(line: bytes) -> str | None:
    try:
        return line.decode("utf-8-sig", "surrogatepass")
    except UnicodeDecodeError:
        return None


def _value(text: str) -> Any:
    """One JSON value. Raises NotJson with the reason."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as fault:
        cut_off = fault.pos >= len(text.rstrip()) or fault.msg.startswith("Unterminated")
        hint = "; is the file cut off?" if cut_off else ""
        raise NotJson(f"line {fault.lineno}, column {fault.colno}: not JSON ({fault.msg}{hint})") from fault
    except RecursionError as fault:
        raise NotJson("is nested too deeply to be read") from fault
    except ValueError as fault:
        raise NotJson(f"holds an integer of more than {MAX_INTEGER_DIGITS} digits") from fault


def _lines_or_values(text: str, raw_lines: list[str | None], notes: Notes, reason: str) -> Document | Lines:
    """JSON Lines, else values of several lines each, one behind the other. Raises NotJson with `reason`."""
    try:
        return _lines(raw_lines, notes, reason)
    except NotJson:
        values, fault = _values(text)
        if fault or not any(isinstance(value, dict | list) for _, value in values):
            raise
    if len(values) == 1:
        return Document(values[0][1])
    lines: list[Line] = []
    number, seen = 1, 0
    for at, value in values:
        number, seen = number + text.count("\n", seen, at), at
        lines.append(Line(number, value))
    return Lines(tuple(lines))


def _lines(raw_lines: list[str | None], notes: Notes, reason: str) -> Lines:
    """Line by line. Raises NotJson with `reason` (why it is no document) when most lines are no JSON."""
    good: list[Line] = []
    broken: list[str] = []
    filled = [(number, raw) for number, raw in enumerate(raw_lines, 1) if raw is None or raw.strip()]
    for number, raw in filled:
        values, fault = _line_values(raw)
        good += [Line(number, value) for value in values]
        if fault:
            broken.append(f"line {number}: {fault}, passed over")
    if not filled:
        raise NotJson(reason)  # nothing but separators, which only a split into lines takes for blanks
    opening = filled[0][1] or ""
    a_broken_list = opening.lstrip().startswith("[") and (not good or good[0].number != filled[0][0])
    if a_broken_list or len(broken) > len(good):
        raise NotJson(reason)
    for note in broken:
        notes.add(note)
    return Lines(tuple(good))


def _line_values(raw: str | None) -> tuple[list[Any], str]:
    """The values of a line, one as a rule, and what is wrong with the line, or with the rest of it."""
    if raw is None:
        return [], "not text in UTF-8"
    try:
        return [_value(raw)], ""
    except NotJson as fault:
        if not isinstance(fault.__cause__, json.JSONDecodeError):
            return [], str(fault)
    found, fault_said = _values(raw)
    return [value for _, value in found], fault_said or ("" if found else "nothing but NULs")


def _values(text: str) -> tuple[list[tuple[int, Any]], str]:
    """The values of a text, each with its place, and what is wrong with it.

    What stands before a fault counts only where another object was begun: else it is a piece of something larger.
    """
    found: list[tuple[int, Any]] = []
    at = _end_of_filling(text, 0)
    while at < len(text):
        try:
            value, end = _DECODER.raw_decode(text, at)
        except json.JSONDecodeError as fault:
            said = f"not JSON ({fault.msg}, column {fault.colno})"
            return (found if text[at] == "{" else []), said
        except (RecursionError, ValueError):
            return [], "is nested too deeply to be read, or holds too long a number"
        found.append((at, value))
        at = _end_of_filling(text, end)
    return found, ""


def _end_of_filling(text: str, at: int) -> int:
    match = _FILLING.match(text, at)
    return match.end() if match else at
