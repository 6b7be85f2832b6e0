"""JSON that every reader takes, and files that are there whole or not at all."""

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from foldahead.errors import InvalidHistory

_NO_JSON_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')
# JSON has no such numbers. 1e999 is one that readers take for infinity; nothing stands for NaN.
_AS_JSON = {"NaN": "null", "Infinity": "1e999", "-Infinity": "-1e999"}


def json_text(value: Any) -> str:
    """A value as JSON in ASCII: lone surrogates stay as escapes; NaN becomes null.

    Raises InvalidHistory for what is nested too deeply to be written.
    """
    try:
        try:
            return json.dumps(value, allow_nan=False)
        except ValueError:
            loose = json.dumps(value)
            return _NO_JSON_NUMBER.sub(lambda found: _AS_JSON.get(found[0], found[0]), loose)
    except RecursionError as error:
        raise InvalidHistory("a message is nested too deeply to be written as JSON") from error


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
