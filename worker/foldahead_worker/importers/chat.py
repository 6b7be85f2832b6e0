"""A list of messages, bare or in a request: `[...]`, `{"messages": [...]}`, an Anthropic request body."""

from __future__ import annotations

from typing import Any

from foldahead_worker.importers import foreign
from foldahead_worker.importers.dialect import dialect_of
from foldahead_worker.importers.messages import checked
from foldahead_worker.importers.notes import Notes
from foldahead_worker.importers.session import ImportedSession
from foldahead_worker.importers.shape import text_at


def session_of(
    values: list[Any], body: dict[str, Any], name: str, at: str, wanted: str, notes: Notes
) -> ImportedSession:
    """One session of a list of messages, each left as it is; `body` is the object that the list stands in.

    `at` names the list in errors. Raises BadMessage or (for formats that are known and not supported) UnknownFormat.
    """
    foreign.refuse(values)
    messages = checked(values, at, notes)
    return ImportedSession(
        name=name,
        dialect=dialect_of(messages, body, wanted, notes),
        messages=messages,
        system=body.get("system"),
        tools=body.get("tools"),
        model=text_at(body, "model"),
        recorded_messages=len(values),
    )
