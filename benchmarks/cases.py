"""Spans to summarise: of recorded sessions where a folder is given, else of synthetic ones. Nothing is copied.

A case is a history cut in two, and the names that were seen before the cut and needed behind it.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.histories import Author, History
from foldahead.core.cut import last_cut
from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import ledger_of
from foldahead_worker.importers import ImportedSession, UnreadableFile, load

NEEDED_FILE = "needed_after_cut.json"
CUT_SHARE = 0.6


@dataclass(frozen=True)
class Case:
    """`history[:cut]` is the span; `needed` was used in a tool call behind it before it was shown again."""

    name: str
    dialect: str
    history: History
    cut: int
    needed: tuple[str, ...]


def cases_of(folder: Path | None, synthetic: int) -> list[Case]:
    """The cases of a folder of recorded sessions, or so many synthetic ones."""
    if folder is None or not folder.is_dir():
        return [synthetic_case(seed) for seed in range(synthetic)]
    needed = _needed_of(folder)
    found: list[Case] = []
    for path in sorted(folder.glob("*/*.json*")):
        try:
            sessions = load(path).sessions
        except UnreadableFile:
            continue
        entries = needed.get(str(path.relative_to(folder)), [])
        found += [_recorded_case(path, session, _entry_of(session, entries)) for session in sessions]
    return [case for case in found if case.cut > 4]


def synthetic_case(seed: int, turns: int = 60) -> Case:
    """A session whose calls behind the cut take up paths from before it, as agents do."""
    author, chance = Author(seed, result_chars=1_400), random.Random(seed)
    history: History = [author.opening()]
    for _ in range(turns):
        history.extend(author.turn())
    cut = _legal(history, "anthropic", int(len(history) * CUT_SHARE))
    seen = [path for at in range(1, cut * 3 // 4, 2) if (path := _path_of(history[at]))]
    needed = tuple(dict.fromkeys(chance.sample(seen, min(4, len(seen)))))
    return Case(f"synthetic-{seed}", "anthropic", history, cut, needed)


def _path_of(message: dict[str, Any]) -> str:
    calls = [block for block in message["content"] if block["type"] == "tool_use"]
    return calls[0]["input"].get("path", "") if calls else ""


def _needed_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    try:
        return json.loads((folder / NEEDED_FILE).read_text("utf8"))
    except OSError:
        return {}


def _entry_of(session: ImportedSession, entries: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The entry of a session: by its name without what is behind it, or the only one of its file."""
    for entry in entries:
        if entry["session"] == "main" or entry["session"].partition(" ")[0] == session.name:
            return entry
    return None


def _recorded_case(path: Path, session: ImportedSession, entry: dict[str, Any] | None) -> Case:
    history = session.messages
    wanted = _index_of(session, entry["cut_before_message"]) if entry else int(len(history) * CUT_SHARE)
    probes = tuple(dict.fromkeys(probe["entity"] for probe in entry["probes"])) if entry else ()
    name = path.stem if session.name == path.stem else f"{path.stem}:{session.name[-12:]}"
    return Case(name, session.dialect, history, _legal(history, session.dialect, wanted), probes)


def _index_of(session: ImportedSession, recorded: int) -> int:
    """Index in the list that was sent for a count of recorded lines: a Claude Code file has a line for each block."""
    if session.recorded_messages <= len(session.messages) + 1:
        return recorded
    lines = 0
    for at, message in enumerate(session.messages):
        content = message["content"]
        lines += len(content) if isinstance(content, list) else 1
        if lines > recorded:
            return at
    return len(session.messages)


def _legal(history: History, dialect: str, wanted: int) -> int:
    ledger = ledger_of(history, get_dialect(dialect))
    return last_cut(ledger, ledger.stable_prefix_end(), min(wanted, len(history)))
