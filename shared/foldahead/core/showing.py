"""Making the view of every turn without making all of it anew."""

from operator import is_
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


class Lead(Struct, frozen=True):
    """What every view begins with while records stay as they are: the view of the messages that they touch."""

    revision: int
    active: Active
    messages: list[Any]
    marks: int
    """Cache breakpoints in the view of the first `count` messages."""
    count: int


class Showing:
    """The view under some records. What lies before the watermark is kept from turn to turn."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._front: _Front | None = None
        self._lead: Lead | None = None

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

    def lead(self, history: list[Any], active: Active, revision: int) -> Lead | None:
        """What the view begins with; None where not all behind it stands as it is in the history.

        Stubs are in copies of messages, whose breakpoints the agent may move: there is none then either.
        """
        lead, kept = self._lead, history[active.touched :]
        if not kept or any(edit.stubs and edit.end > active.end for edit in active.edits):
            return None
        made = lead is not None and lead.active is active and lead.revision == revision
        if lead is None or not made or self._dialect.profile.alternates:
            view = self.view(history, active, revision)
            since = len(view) - len(kept)
            if not all(map(is_, view[since:], kept)):
                return None
            lead = Lead(revision, active, view[:since], self._dialect.breakpoints(view), len(history))
        else:
            # An agent that sets breakpoints also moves them, so that they are counted again.
            counted = [*lead.messages, *kept] if lead.marks else history[lead.count :]
            lead = Lead(revision, active, lead.messages, self._dialect.breakpoints(counted), len(history))
        self._lead = lead
        return lead
