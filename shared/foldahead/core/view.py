"""The view: what is sent to the provider, a pure function of the history and the session's records."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from foldahead.core.dialect import Dialect
from foldahead.core.ledger import Ledger
from foldahead.core.record import Record

ACKNOWLEDGEMENT = "Understood."
"""Stands between two messages of the user where a provider wants the roles to alternate."""
CONTINUATION = "(continue)"
MOST_BREAKPOINTS = 4
"""Cache breakpoints that the Messages API takes in one request."""


class Active(Struct, frozen=True):
    """The records that count for one history, sorted out."""

    spans: tuple[Record, ...] = ()
    """What stands for a span, oldest first; they never overlap."""
    edits: tuple[Record, ...] = ()
    """Elisions, removed thinking and repairs, in the order that they were made."""
    pins: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """The watermark: the index at which compacted history ends; 0 when nothing is compacted."""
        return self.spans[-1].end if self.spans else 0

    @property
    def touched(self) -> int:
        """Index after the last message that differs from the history."""
        return max((record.end for record in (*self.spans, *self.edits)), default=0)


def active_records(records: Sequence[Record], ledger: Ledger) -> Active:
    """The records that were made from this very history, later spans in place of those that they overlap.

    A span's pins are recorded behind it: those of a span whose place it took go with that one.
    """
    spans: list[Record] = []
    edits: list[Record] = []
    pins: set[int] = set()
    for record in records:
        if not _made_from(record, ledger):
            continue
        if record.withdraws:
            spans, edits, pins = [], [edit for edit in edits if edit.start >= record.end], set[int]()
        elif record.stands_for_span:
            spans = [span for span in spans if span.end <= record.start or span.start >= record.end]
            spans.append(record)
            pins -= set(range(record.start, record.end))
        elif record.kind == "pinned":
            pins.update(range(record.start, record.end))
        else:
            edits.append(record)
    return Active(tuple(sorted(spans, key=lambda span: span.start)), tuple(edits), tuple(sorted(pins)))


def _made_from(record: Record, ledger: Ledger) -> bool:
    return (
        record.end <= len(ledger)
        and ledger.heads[record.end].hex() == record.head_end
        and ledger.heads[record.start].hex() == record.head_start
    )


def build_view(history: Sequence[Any], active: Active, dialect: Dialect) -> list[Any]:
    """Stable prefix, pins, what stands for each span, then everything after, with the edits that records name."""
    edited = _edited(history, active, dialect)
    view: list[Any] = []
    at = 0
    for span in active.spans:
        view.extend(edited[at : span.start])
        pins = [edited[pin] for pin in active.pins if span.start <= pin < span.end]
        view.extend(_opened(pins, span.message, opening=not view and dialect.profile.opens_with_user))
        at = span.end
    view.extend(edited[at:])
    view = [message for message in view if message is not None]
    if dialect.profile.alternates:
        view = _alternating(view, dialect)
    return dialect.limit_breakpoints(view, MOST_BREAKPOINTS)


def _opened(pins: list[Any], summary: Any, opening: bool) -> list[Any]:
    """Pins ahead of the summary; behind it where a pinned message cannot open a conversation."""
    first = next((pin for pin in pins if pin is not None), None)
    if opening and first is not None and _role(first) != "user":
        return [summary, *pins]
    return [*pins, summary]


def _edited(history: Sequence[Any], active: Active, dialect: Dialect) -> list[Any]:
    """A copy of the history with the edits made; None where a message was taken out."""
    messages = list(history)
    for record in sorted(active.edits, key=lambda record: record.kind != "repaired"):
        match record.kind:
            case "elided":
                for place, stub in (record.stubs or {}).items():
                    index, block = parse_place(place)
                    if messages[index] is not None:
                        messages[index] = dialect.with_stub(messages[index], block, stub)
            case "thinking_removed":
                for index in range(record.start, record.end):
                    if messages[index] is not None:
                        messages[index] = dialect.without_thinking(messages[index])
            case _:
                messages[record.start] = record.message
    return messages


def parse_place(place: str) -> tuple[int, int]:
    """Message index and block of a key of `Record.stubs`: "12" is the first block of message 12, "12/3" its fourth."""
    index, _, block = place.partition("/")
    return int(index), int(block or 0)


def _alternating(view: list[Any], dialect: Dialect) -> list[Any]:
    alternating: list[Any] = []
    for message in view:
        role = _role(message)
        if alternating and role == _role(alternating[-1]) == "user":
            alternating.append(dialect.assistant_message(ACKNOWLEDGEMENT))
        elif alternating and role == _role(alternating[-1]) == "assistant":
            alternating.append(dialect.user_message(CONTINUATION))
        alternating.append(message)
    return alternating


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else getattr(message, "role", None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
