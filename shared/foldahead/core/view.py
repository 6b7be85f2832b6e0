"""The view: what is sent to the provider, a pure function of the history and the session's records."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from foldahead.core.dialect import Dialect, role_of
from foldahead.core.ledger import Ledger
from foldahead.core.messages import SYSTEM_ROLES, Call, Result, is_compaction
from foldahead.core.record import THINKING_BOUND, Record
from foldahead.core.tokens import estimate

ACKNOWLEDGEMENT = "Understood."
"""Stands for the assistant where a provider wants it to have spoken."""
CONTINUATION = "(continue)"
"""Stands for the user where a provider wants one to have spoken."""
MOST_BREAKPOINTS = 4
"""Cache breakpoints that the Messages API takes in one request."""
DEGRADED = ("extract", "truncated")
"""Reasons of span records that a better summary may take the place of: the session heals."""


class Active(Struct, frozen=True):
    """The records that count for one history, sorted out."""

    spans: tuple[Record, ...] = ()
    """What stands for a span, oldest first; they never overlap."""
    edits: tuple[Record, ...] = ()
    """Elisions, removed thinking and repairs, in the order that they were made."""
    pins: tuple[int, ...] = ()
    asked: frozenset[int] = frozenset()
    """Indices that the caller pinned: in every span's pins, whatever else was recorded of it."""
    withdrawn: int = 0
    """Up to here a provider refused what was made of the history: it is neither mended nor elided there again."""
    refused: frozenset[str] = frozenset()
    """Marks of the spans' records that it refused."""
    binds_thinking: bool = False
    """The provider refused a view for the thinking in it."""
    given_up: frozenset[str] = frozenset()
    """Cache keys of `native` summaries that the session's requests have outgrown."""
    times_given_up: int = 0
    """How often that was found; each time a block goes, so do those that it went on from."""
    weights: tuple[int, ...] = ()
    """Estimated tokens of what stands for each span; empty: not weighed."""

    @property
    def end(self) -> int:
        """The watermark: the index at which compacted history ends; 0 when nothing is compacted."""
        return self.spans[-1].end if self.spans else 0

    @property
    def touched(self) -> int:
        """Index after the last message that differs from the history."""
        return max((record.end for record in (*self.spans, *self.edits)), default=0)

    @property
    def thinking_alone(self) -> "Active":
        """Without all that changes what stands before any thinking; itself where nothing does."""
        kept = tuple(edit for edit in self.edits if edit.kind == "thinking_removed")
        return self if not self.spans and len(kept) == len(self.edits) else Active(edits=kept)

    @property
    def degraded(self) -> str:
        """What the view stands on where it would heal, `extract` or `truncated`; else empty."""
        return next((span.reason for span in self.spans if span.reason in DEGRADED), None) or ""

    @property
    def settled_end(self) -> int:
        """Where the spans end whose summaries are there to stay, those before the first degraded one."""
        end = 0
        for span in self.spans:
            if span.reason in DEGRADED:
                break
            end = span.end
        return end


def active_records(records: Sequence[Record], ledger: Ledger) -> Active:
    """The records that were made from this very history, later spans in place of those that they overlap.

    A span's pins are recorded behind it: those of a span whose place it took go with that one.
    """
    spans: list[Record] = []
    shown: list[Record] = []  # those that others took the place of as well: none comes again with the same record
    edits: list[Record] = []
    pins: set[int] = set()
    asked: set[int] = set()
    withdrawn = 0
    refused: set[str] = set()
    records = [record for record in records if made_from(record, ledger)]
    outgrown = [record for record in records if record.gives_up]
    given_up = frozenset(record.cache_key for record in outgrown if record.cache_key)
    for record in records:
        if record.gives_up or (record.stands_for_span and record.cache_key in given_up):
            continue  # what it took the place of stands again
        if record.withdraws:
            refused.update(record.refused_marks)
            refused.update(span.mark for span in shown if span.end <= record.end)
            spans = [span for span in spans if span.end > record.end]
            # Of a shorter branch: a span that goes on beyond it stands, with its pins and what was changed in them.
            gone = set(range(record.end)).difference(*(range(span.start, span.end) for span in spans))
            edits = [edit for edit in edits if edit.start not in gone]
            pins -= gone
            withdrawn = max(withdrawn, record.end)
        elif record.stands_for_span:
            spans = [span for span in spans if span.end <= record.start or span.start >= record.end]
            spans.append(record)
            shown.append(record)
            pins -= set(range(record.start, record.end))
        elif record.kind == "pinned" and record.reason == "pinned":
            asked.update(range(record.start, record.end))
        elif record.kind == "pinned":
            pins.update(range(record.start, record.end))
        else:
            edits.append(record)
    spans = sorted(spans, key=lambda span: span.start)
    return Active(
        spans=tuple(spans),
        weights=tuple(estimate(ledger.dialect.read(span.message, span.start)) for span in spans),
        edits=tuple(edits),
        pins=tuple(sorted(pins)),
        asked=frozenset(asked),
        withdrawn=withdrawn,
        refused=frozenset(refused),
        binds_thinking=any(record.withdraws and record.reason == THINKING_BOUND for record in records),
        given_up=given_up,
        times_given_up=len({record.created_at_ms for record in outgrown}),
    )


def made_from(record: Record, ledger: Ledger) -> bool:
    """Whether a record tells of this very history."""
    return (
        record.end <= len(ledger)
        and ledger.heads[record.end].hex() == record.head_end
        and ledger.heads[record.start].hex() == record.head_start
    )


def build_view(history: Sequence[Any], active: Active, dialect: Dialect) -> list[Any]:
    """Stable prefix, pins, what stands for each span, then everything after, with the edits that records name."""
    kept = kept_messages(history, active, dialect)
    return joined(compacted(history, active, dialect, role_of(kept[0]) if kept else ""), kept, dialect)


def joined(front: list[Any], kept: list[Any], dialect: Dialect) -> list[Any]:
    """The whole view of the two parts of it."""
    view = [*front, *kept]
    if dialect.profile.alternates:
        view = _alternating(view, dialect)
    return dialect.limit_breakpoints(view, MOST_BREAKPOINTS)


def compacted(history: Sequence[Any], active: Active, dialect: Dialect, next_role: str) -> list[Any]:
    """The view up to the watermark. `next_role` is that of the first message behind it, empty when there is none."""
    edited = _edited(history[: active.end], 0, active.edits, dialect)
    front: list[Any] = []
    at = 0
    for span in active.spans:
        front.extend(edited[at : span.start])
        pins = [edited[pin] for pin in active.pins if span.start <= pin < span.end]
        opening = dialect.profile.opens_with_user and all(map(_is_system, front))
        front.extend(_opened(pins, span.message, opening, dialect))
        at = span.end
    front = [message for message in front if message is not None]
    if front and not next_role and role_of(front[-1]) == "assistant":
        front.append(
            dialect.user_message(CONTINUATION)
        )  # a pin behind the summary: the model is to answer all the same
    return _settled(front, next_role, dialect) if dialect.profile.places_system else front


def kept_messages(history: Sequence[Any], active: Active, dialect: Dialect) -> list[Any]:
    """Everything behind the watermark, with the edits that records name."""
    return [
        message for message in _edited(history[active.end :], active.end, active.edits, dialect) if message is not None
    ]


def _is_system(message: Any) -> bool:
    return message is None or role_of(message) in SYSTEM_ROLES


def _opened(pins: list[Any], summary: Any, opening: bool, dialect: Dialect) -> list[Any]:
    """Pins ahead of the summary; behind it where a pinned message cannot open a conversation, as a block can that the
    provider wrote for the agent, and behind one that it wrote for us, which is the assistant's and goes first."""
    if role_of(summary) == "assistant":
        return [summary, *pins]
    first = next((pin for pin in pins if pin is not None), None)
    opens = first is None or role_of(first) == "user" or any(map(is_compaction, dialect.read(first, 0).blocks))
    return [*pins, summary] if opens or not opening else [summary, *pins]


def _settled(front: list[Any], next_role: str, dialect: Dialect) -> list[Any]:
    """System messages where the provider takes them: behind a user's message, and an assistant's behind them."""
    settled: list[Any] = []
    for message in front:
        _lead_over(settled, role_of(message), dialect)
        settled.append(message)
    if next_role:
        _lead_over(settled, next_role, dialect)
    return settled


def _lead_over(settled: list[Any], role: str, dialect: Dialect) -> None:
    if not settled:
        return
    if role_of(settled[-1]) == "system" and role != "assistant":
        settled.append(dialect.assistant_message(ACKNOWLEDGEMENT))
    if role == "system" and not _takes_system(settled[-1], dialect):
        settled.append(dialect.user_message(CONTINUATION))


def _takes_system(message: Any, dialect: Dialect) -> bool:
    """Whether a system message may stand behind this one: a user's, or one that ends in a tool of the provider's."""
    if role_of(message) != "assistant":
        return role_of(message) == "user"
    last = next(reversed(dialect.read(message, 0).blocks), None)
    return isinstance(last, Call | Result) and last.server


def _edited(messages: Sequence[Any], start: int, edits: Iterable[Record], dialect: Dialect) -> list[Any]:
    """A copy of the messages from index `start` on with the edits made; None where a message was taken out."""
    edited = list(messages)
    inside = range(len(edited))
    for record in sorted(edits, key=lambda record: record.kind != "repaired"):
        if record.end <= start or record.start >= start + len(edited):
            continue
        match record.kind:
            case "elided":
                for place, stub in (record.stubs or {}).items():
                    index, block = parse_place(place)
                    if (at := index - start) in inside and edited[at] is not None:
                        edited[at] = dialect.with_stub(edited[at], block, stub)
            case "thinking_removed":
                for at in range(max(0, record.start - start), min(record.end - start, len(edited))):
                    if edited[at] is not None:
                        edited[at] = dialect.without_thinking(edited[at])
            case _:
                edited[record.start - start] = record.message
    return edited


def parse_place(place: str) -> tuple[int, int]:
    """Message index and block of a key of `Record.stubs`: "12" is the first block of message 12, "12/3" its fourth."""
    index, _, block = place.partition("/")
    return int(index), int(block or 0)


def _alternating(view: list[Any], dialect: Dialect) -> list[Any]:
    """With a word between two of one role. A user's may not follow a tool's either: the assistant is to answer that."""
    alternating: list[Any] = []
    before = ""
    for message in view:
        role = role_of(message)
        if role == "assistant" and not before and dialect.profile.opens_with_user:
            alternating.append(dialect.user_message(CONTINUATION))
        if role == "user" and before in ("user", "tool", "function"):
            alternating.append(dialect.assistant_message(ACKNOWLEDGEMENT))
        elif role == before == "assistant":
            alternating.append(dialect.user_message(CONTINUATION))
        alternating.append(message)
        before = before if _is_system(message) else role
    return alternating
