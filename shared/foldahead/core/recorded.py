"""What was recorded of a session, and the summaries that are ready for it."""

from collections.abc import Iterable

from foldahead.core.ledger import Ledger
from foldahead.core.native import has_block
from foldahead.core.record import Record, record_of
from foldahead.core.standing import Ready
from foldahead.core.view import Active, active_records, made_from
from foldahead.errors import InvalidHistory

MOST_READY = 8
"""Summaries kept ready for one session."""


class Recorded:
    """Records in their order and ready summaries, sorted out for one history at a time.

    Every change is told the ledger of the history as it is now.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.ready: dict[str, Ready] = {}
        self.refused: set[str] = set()
        """Marks of what a provider refused: not shown again."""
        self.active = Active()
        self.doubted = False
        """What another process recorded does not fit this history: it may have been edited in place."""
        self._next_end: int | None = None

    def refresh(self, ledger: Ledger) -> None:
        """Sort the records out anew."""
        self.active = active_records(self.records, ledger)
        length = len(ledger)
        self._next_end = min((record.end for record in self.records if record.end > length), default=None)
        self.refused |= {record.cache_key for record in self.records if record.withdraws and record.cache_key}
        self.refused |= self.active.refused
        for cache_key in self.refused & self.ready.keys():
            del self.ready[cache_key]

    @property
    def is_settled(self) -> bool:
        """Whether nothing that is recorded waits for more of the history, or for another look at it."""
        return self._next_end is None and not self.doubted

    def concerns_more_at(self, length: int) -> bool:
        """Whether records of a longer history than was sorted out for may count at this length."""
        return self._next_end is not None and length >= self._next_end

    def replace(self, records: list[Record], ledger: Ledger) -> bool:
        """Take all records in another order; True when anything changed."""
        known = [record.identity for record in self.records]
        records = [record for record in records if _readable(record, ledger)]
        if [record.identity for record in records] == known:
            return False
        seen = set(known)
        self._doubt([record for record in records if record.identity not in seen], ledger)
        self.records = records
        self.refresh(ledger)
        return True

    def append(self, records: Iterable[Record], ledger: Ledger) -> None:
        """Take records just made of this history."""
        self.records.extend(records)
        self.refresh(ledger)

    def _doubt(self, new: list[Record], ledger: Ledger) -> None:
        self.doubted |= any(record.end <= len(ledger) and not made_from(record, ledger) for record in new)

    def pin(self, index: int, ledger: Ledger, now_ms: int) -> bool:
        """Record that the caller wants a message kept; False when it is already."""
        if index in self.active.asked:
            return False
        self.append([record_of(ledger.heads, "pinned", index, index + 1, now_ms, reason="pinned")], ledger)
        return True

    def withdraw(self, ledger: Ledger, now_ms: int, reason: str) -> None:
        """Take back all that makes the view differ: each span by itself, so that none comes again on any branch."""
        active = self.active
        spans = [(span.start, span.end, span.cache_key) for span in active.spans]
        whole = [(0, active.touched, None)] if active.touched > active.end else []
        withdrawals = [
            record_of(ledger.heads, "swapped", start, end, now_ms, cache_key=cache_key, reason=reason)
            for start, end, cache_key in (*spans, *whole)
        ]
        self.append(withdrawals, ledger)

    def add_ready(self, ready: Ready, ledger: Ledger) -> None:
        """Take a summary that is ready. Of too many the least useful goes."""
        if ready.kind == "native" and not has_block(ready):
            return
        if ready.cache_key in self.refused or ready.cache_key in self.ready:
            return
        self.ready[ready.cache_key] = ready
        while len(self.ready) > MOST_READY:
            del self.ready[min(self.ready, key=lambda key: _usefulness(self.ready[key], ledger))]

    def forget_ready_up_to(self, watermark: int) -> None:
        """Leave out summaries that would be no progress any more."""
        self.ready = {key: ready for key, ready in self.ready.items() if ready.end > watermark}


def _readable(record: Record, ledger: Ledger) -> bool:
    """Whether what a record puts in is a message: records come from other processes, and none may break a turn."""
    try:
        return record.message is None or bool(ledger.dialect.read(record.message, record.start))
    except InvalidHistory:
        return False


def _usefulness(ready: Ready, ledger: Ledger) -> tuple[bool, int]:
    """Summaries of another branch first, then those that end earliest."""
    return ready.end < len(ledger.heads) and ledger.heads[ready.end] == ready.head_end, ready.end
