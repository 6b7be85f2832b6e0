"""Recorded sessions of other people's agents, read from files: what `foldahead play` and `compact` take."""

from __future__ import annotations

from foldahead_worker.importers.errors import (
    BadMessage,
    FileRefused,
    NotJson,
    SessionChoice,
    UnknownFormat,
    UnreadableFile,
)
from foldahead_worker.importers.load import load
from foldahead_worker.importers.session import ImportedSession, ImportResult, pick

__all__ = [
    "BadMessage",
    "FileRefused",
    "ImportResult",
    "ImportedSession",
    "NotJson",
    "SessionChoice",
    "UnknownFormat",
    "UnreadableFile",
    "load",
    "pick",
]
