"""Making the view of every turn without making all of it anew."""

from operator import is_
from typing import Any

from msgspec import Struct

from foldahead.core.dialect import Dialect, role_of
from foldahead.core.view import MOST_BREAKPOINTS, Active, compacted, joined, kept_messages


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
        copied = [edit for edit in active.edits if edit.end > active.end and edit.kind != "repaired"]
        if not kept or any(edit.stubs for edit in copied):
            return None
        made = lead is not None and lead.active is active and lead.revision == revision
        if lead is None or not made or self._dialect.profile.alternates:
            lead = self._first_lead(history, active, revision)
        else:
            # What is copied is copied anew: the agent may have edited it in place.
            messages = self.view(history[: active.touched + 1], active, revision)[:-1] if copied else lead.messages
            # An agent that sets breakpoints also moves them, so that they are counted again.
            counted = [*messages, *kept] if lead.marks else history[lead.count :]
            lead = Lead(revision, active, messages, self._dialect.breakpoints(counted), len(history))
        if lead is None or self._marks_of_its_own(lead, history):
            return None
        self._lead = lead
        return lead

    def _first_lead(self, history: list[Any], active: Active, revision: int) -> Lead | None:
        view, kept = self.view(history, active, revision), history[active.touched :]
        since, marks = len(view) - len(kept), self._dialect.breakpoints(view)
        if marks >= MOST_BREAKPOINTS or not all(map(is_, view[since:], kept)):
            return None  # of too many some were taken out of copies
        return Lead(revision, active, view[:since], marks, len(history))

    def _marks_of_its_own(self, lead: Lead, history: list[Any]) -> bool:
        """Whether it has breakpoints that the history has not, once the agent moves its own: those in copies."""
        if not self._dialect.breakpoints(lead.messages):
            return False
        own = set(map(id, history))
        return bool(self._dialect.breakpoints([message for message in lead.messages if id(message) not in own]))
