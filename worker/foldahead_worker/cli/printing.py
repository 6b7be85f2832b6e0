"""What goes to a terminal or a pipe: results on standard output, progress and notes on standard error."""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.theme import Theme

from foldahead_worker.cli.faults import one_line
from foldahead_worker.json_out import json_text

THEME = Theme(
    {
        "good": "green",
        "warn": "yellow",
        "bad": "red",
        "faint": "dim",
        "number": "bold",
        "ours": "cyan",
        "title": "bold",
    }
)


def out() -> Console:
    """The console for results."""
    return Console(theme=THEME, highlight=False)


def err() -> Console:
    """The console for progress, notes and what went wrong."""
    return Console(theme=THEME, highlight=False, stderr=True)


def print_json(value: Any) -> None:
    """One JSON object on standard output, and a line feed."""
    sys.stdout.write(json_text(value) + "\n")
    sys.stdout.flush()


def print_notes(notes: Iterable[str]) -> None:
    """Remarks about the input, on standard error."""
    for note in notes:
        sys.stderr.write(f"note: {one_line(note)}\n")
