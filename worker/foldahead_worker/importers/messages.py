"""Is this a list of messages? What every format asks of its entries before anything else looks into them."""

from __future__ import annotations

from typing import Any

from foldahead_worker.importers.errors import BadMessage
from foldahead_worker.importers.notes import Notes
from foldahead_worker.importers.shape import is_array, is_object, named, text_at

# What the two providers take. `exit` is no role of theirs: a harness writes it as the last entry of a run.
ROLES = frozenset({"user", "assistant", "system", "developer", "tool", "function"})
EXIT = "exit"


def checked(values: list[Any], at: str, notes: Notes) -> list[dict[str, Any]]:
    """The messages of a list, `exit` entries left out with a note.

    Raises BadMessage, which names the first value that is no message as `at[index]`.
    """
    kept: list[dict[str, Any]] = []
    for index, value in enumerate(values):
        fault = fault_of(value)
        if fault:
            raise BadMessage(f"{at}[{index}]{fault}")
        if value["role"] == EXIT:
            notes.add(f"{at}[{index}]: role 'exit' is the harness's, passed over")
        else:
            kept.append(value)
    return kept


def fault_of(value: Any) -> str | None:
    """What is wrong with a value that should be a message, as `: reason` or `.field: reason`; else None."""
    if not is_object(value):
        return f": {named(value)}; expected a message, an object with a role and content"
    role = value.get("role")
    if role is None:
        return f": {named(value)}; a message needs a role"
    if not isinstance(role, str) or (role not in ROLES and role != EXIT):
        what = ascii(role[:40]) if isinstance(role, str) else named(role)
        return f".role: {what}; expected one of {', '.join(sorted(ROLES))}"
    return _content_fault(value) or _calls_fault(value)


def _content_fault(message: dict[str, Any]) -> str | None:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return None
    if not is_array(content):
        return f".content: {named(content)}; expected a text or a list of blocks"
    for index, block in enumerate(content):
        if not is_object(block):
            return f".content[{index}]: {named(block)}; expected a block, an object with a type"
    return None


def _calls_fault(message: dict[str, Any]) -> str | None:
    calls = message.get("tool_calls")
    if calls is None:
        return None
    if not is_array(calls):
        return f".tool_calls: {named(calls)}; expected a list of calls"
    for index, call in enumerate(calls):
        if not is_object(call):
            return f".tool_calls[{index}]: {named(call)}; expected a call, an object with a function"
    return None


def looks_like_one(value: Any) -> bool:
    """Has this the outer shape of a message?"""
    return is_object(value) and text_at(value, "role") is not None
