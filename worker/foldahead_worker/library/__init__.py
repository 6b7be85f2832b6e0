"""The Redis function libraries: what agents and servers call instead of writing keys themselves.

`foldahead` is for both; `foldahead_limits` (limits.lua) for workers alone.

The server side loads it; an agent only calls it. docs/wire.md lists the calls.
"""

import re
from importlib.resources import files
from typing import Any

import redis

LIBRARY_NAME = "foldahead"
LIMITS_NAME = "foldahead_limits"
_FILES = {LIBRARY_NAME: "foldahead.lua", LIMITS_NAME: "limits.lua"}
_VERSION_LINE = re.compile(r"^-- version: (\d+)$", re.MULTILINE)


def source(name: str = LIBRARY_NAME) -> str:
    """A library's Lua text."""
    return files(__name__).joinpath(_FILES[name]).read_text("utf-8")


def version_of(code: str) -> int:
    """The version that a library text says it has; 0 when it says none."""
    found = _VERSION_LINE.search(code)
    return int(found[1]) if found else 0


LIBRARY_VERSION = version_of(source())


def load(client: "redis.Redis") -> None:
    """Put the libraries into the server unless these or newer ones are there. Raises redis.RedisError.

    A newer one is left alone: in a rolling upgrade old and new servers must not take turns in replacing it.
    """
    for name in _FILES:
        code = source(name)
        loaded = loaded_code(client, name)
        if loaded != code and version_of(loaded) <= version_of(code):
            client.function_load(code, replace=True)


def loaded_code(client: "redis.Redis", name: str = LIBRARY_NAME) -> str:
    """The text of a library that the server has; empty when it has none. Raises redis.RedisError."""
    for entry in client.function_list(library=name, withcode=True):
        fields = _as_dict(entry)
        code = fields.get("library_code", b"")
        return code.decode("utf-8", "replace") if isinstance(code, bytes) else str(code)
    return ""


def _as_dict(entry: Any) -> dict[str, Any]:
    """One row of FUNCTION LIST: a map in RESP3, a flat list in RESP2."""
    items = entry.items() if isinstance(entry, dict) else zip(entry[::2], entry[1::2], strict=True)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return {key.decode() if isinstance(key, bytes) else str(key): value for key, value in items}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
