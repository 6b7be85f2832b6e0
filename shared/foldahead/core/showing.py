"""Making the view of every turn without making all of it anew."""

from typing import Any

from msgspec import Struct

from foldahead.core.dialect import Dialect, role_of
from foldahead.core.view import Active, compacted, joined, kept_messages


class _Front(Struct, frozen=True):
    """The view up to the watermark, and what it was made of."""

    revision: int
    active: Active
    next_role: str
    messages: list[Any]


class Showing:
    """The view under some records. What lies before the watermark is kept from turn to turn."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._front: _Front | None = None

    def view(self, history: list[Any], active: Active, revision: int) -> list[Any]:
        """What `build_view` gives; the history itself when no record counts.

        `revision` changes when messages before the watermark come in another form.
        """
        if not active.spans and not active.edits:
            return history
        kept = kept_messages(history, active, self._dialect)
        next_role = role_of(kept[0]) if kept else ""
        front = self._front
        made = front is not None and (front.revision, front.next_role) == (revision, next_role)
        if front is None or not made or front.active is not active:
            front = _Front(revision, active, next_role, compacted(history, active, self._dialect, next_role))
            self._front = front
        return joined(front.messages, kept, self._dialect)
