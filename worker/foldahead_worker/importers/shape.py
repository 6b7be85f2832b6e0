"""What a JSON value is, in types and in words."""

from __future__ import annotations

from typing import Any, TypeGuard

SHOWN_KEYS = 12
SHOWN_CHARS = 80


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """A JSON object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """A JSON array."""
    return isinstance(value, list)


def objects(value: Any) -> list[dict[str, Any]]:
    """The JSON objects in an array; none if it is no array."""
    return [item for item in value if is_object(item)] if is_array(value) else []


def text_at(value: dict[str, Any], *keys: str) -> str | None:
    """The first of these keys that holds a text which is not empty."""
    for key in keys:
        found = value.get(key)
        if isinstance(found, str) and found:
            return found
    return None


def object_at(value: dict[str, Any], *path: str) -> dict[str, Any]:
    """The object at this path of keys; an empty one where there is none."""
    for key in path:
        inner = value.get(key)
        if not is_object(inner):
            return {}
        value = inner
    return value


def named(value: Any) -> str:
    """The value in words, for a message to a person: `a number`, `an object with keys 'a', 'b'`."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return f"an object with {keys_of(value)}" if is_object(value) else type(value).__name__


def keys_of(value: dict[str, Any]) -> str:
    """The first keys of an object, quoted, on one line."""
    if not value:
        return "no keys"
    shown = ", ".join(ascii(key[:SHOWN_CHARS]) for key in list(value)[:SHOWN_KEYS])
    return f"keys {shown} and {len(value) - SHOWN_KEYS} more" if len(value) > SHOWN_KEYS else f"keys {shown}"


def printable(text: str) -> str:
    """The text on one line, with what no terminal should get escaped (controls, lone surrogates)."""
    shown = text if len(text) <= 4 * SHOWN_CHARS else f"{text[: 4 * SHOWN_CHARS]}..."
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in shown)
