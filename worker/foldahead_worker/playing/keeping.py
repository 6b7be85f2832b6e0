"""`--out DIR`: every request that the agent would have sent, one JSON file each, so that anyone can judge them."""

import re
from pathlib import Path
from typing import Any

from foldahead_worker.json_out import json_text, write_whole

_NAME_CHARS = 80


def keep_request(folder: Path, name: str, dialect: str, session: str, turn: int, request: dict[str, Any]) -> None:
    """Write {dialect, session, turn, request}, whole or not at all; `name` is the session's alone. Raises OSError."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:_NAME_CHARS]
    content = {"dialect": dialect, "session": session, "turn": turn, "request": request}
    write_whole(folder / f"{safe}.{turn:04}.json", json_text(content) + "\n")
