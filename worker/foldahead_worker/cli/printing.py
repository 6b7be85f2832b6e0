"""What goes to a terminal or a pipe: results on standard output, progress and notes on standard error."""

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.theme import Theme

from foldahead_worker.cli.faults import BadInput, one_line

THEME = Theme(
    {
        "good": "green",
        "warn": "yellow",
        "bad": "red",
        "faint": "dim",
        "number": "bold",
        "ours": "cyan",
        "title": "bold",
        "repr.number": "none",
    }
)
_NO_JSON_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')
# JSON has no such numbers. 1e999 is one that every reader takes for infinity; nothing stands for NaN.
_AS_JSON = {"NaN": "null", "Infinity": "1e999", "-Infinity": "-1e999"}


def out() -> Console:
    """The console for results."""
    return Console(theme=THEME, highlight=False)


def err() -> Console:
    """The console for progress, notes and what went wrong."""
    return Console(theme=THEME, highlight=False, stderr=True)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON that every reader takes, in ASCII: lone surrogates stay as escapes. NaN becomes null.

    Raises BadInput for what is nested too deeply to be written.
    """
    try:
        try:
            return json.dumps(value, indent=indent, allow_nan=False)
        except ValueError:
            loose = json.dumps(value, indent=indent)
            return _NO_JSON_NUMBER.sub(lambda found: _AS_JSON.get(found[0], found[0]), loose)
    except RecursionError as error:
        raise BadInput("a message is nested too deeply to be written as JSON") from error


def print_json(value: Any) -> None:
    """One JSON object on standard output, and a line feed."""
    sys.stdout.write(json_text(value) + "\n")
    sys.stdout.flush()


def print_notes(notes: Iterable[str]) -> None:
    """Remarks about the input, on standard error."""
    for note in notes:
        sys.stderr.write(f"note: {one_line(note)}\n")


def write_whole(path: Path, text: str) -> None:
    """A file with this content, or none at all: nobody ever sees half of it. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf8") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
