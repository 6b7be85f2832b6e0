"""The Redis function library `foldahead`: what agents and servers call instead of writing keys themselves.

The server side loads it; an agent only calls it. docs/wire.md lists the calls.
"""

import re
from importlib.resources import files
from typing import Any

import redis

LIBRARY_NAME = "foldahead"
_VERSION_LINE = re.compile(r"^-- version: (\d+)$", re.MULTILINE)


def source() -> str:
    """The library's Lua text."""
    return files(__name__).joinpath("foldahead.lua").read_text("utf-8")


def version_of(code: str) -> int:
    """The version that a library text says it has; 0 when it says none."""
    found = _VERSION_LINE.search(code)
    return int(found[1]) if found else 0


LIBRARY_VERSION = version_of(source())


def load(client: "redis.Redis") -> None:
    """Put the library into the server unless this or a newer one is there. Raises redis.RedisError.

    A newer one is left alone: in a rolling upgrade old and new servers must not take turns in replacing it.
    """
    code = source()
    loaded = loaded_code(client)
    if loaded == code or version_of(loaded) > LIBRARY_VERSION:
        return
    client.function_load(code, replace=True)


def loaded_code(client: "redis.Redis") -> str:
    """The text of the library that the server has; empty when it has none. Raises redis.RedisError."""
    for entry in client.function_list(library=LIBRARY_NAME, withcode=True):
        fields = _as_dict(entry)
        code = fields.get("library_code", b"")
        return code.decode("utf-8", "replace") if isinstance(code, bytes) else str(code)
    return ""


def _as_dict(entry: Any) -> dict[str, Any]:
    """One row of FUNCTION LIST: a map in RESP3, a flat list in RESP2."""
    items = entry.items() if isinstance(entry, dict) else zip(entry[::2], entry[1::2], strict=True)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return {key.decode() if isinstance(key, bytes) else str(key): value for key, value in items}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
