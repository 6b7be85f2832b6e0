"""Observation ageing (second seed): old fat tool results become one-line stubs, in place, a batch at a time.

The stub is a pure function of the tool's name and the length of the result, so two runs of one conversation give
the same bytes.
"""

from collections import Counter

from foldahead.core.ledger import Ledger
from foldahead.core.observations import Observation, stub_for
from foldahead.core.policy import Policy
from foldahead.core.record import Record, record_of
from foldahead.core.view import Active


def elision(
    ledger: Ledger, active: Active, region: tuple[int, int], policy: Policy, now_ms: int
) -> tuple[Record | None, int]:
    """The next batch of a region as a record, and the characters of its results; (None, 0) when there is none."""
    eligible = _eligible(ledger, active, region, policy)
    stubs = {_place(seen): stub_for(seen.tool, seen.chars) for seen in eligible}
    if not stubs:
        return None, 0
    return _record(stubs, eligible, ledger, now_ms), sum(seen.chars for seen in eligible)


def _eligible(ledger: Ledger, active: Active, region: tuple[int, int], policy: Policy) -> list[Observation]:
    """Results of the region that are old and fat, and those of which a newer copy stands somewhere behind them.

    The newest of several stays for good, wherever the older copies are now; none becomes longer by its stub.
    """
    start, end = region
    done = {place for record in active.edits for place in record.stubs or {}}
    mended = {record.start for record in active.edits if record.kind == "repaired"}
    seen_all = ledger.observations.values()
    newest = {seen.identity: seen for seen in seen_all if seen.identity}
    counts = Counter(seen.identity for seen in seen_all if seen.identity)
    eligible: list[Observation] = []
    for seen in seen_all:
        if not start <= seen.index < end or seen.index in mended or _place(seen) in done:
            continue
        repeated = counts[seen.identity] > 1
        if repeated and newest[seen.identity] is seen:
            continue
        grace = ledger.chars[-1] - ledger.chars[seen.index + 1]
        aged = seen.chars > policy.age_min_chars and grace >= policy.age_reclaim_min
        if (repeated or aged) and seen.chars > len(stub_for(seen.tool, seen.chars)):
            eligible.append(seen)
    return eligible


def _place(seen: Observation) -> str:
    return f"{seen.index}/{seen.block}" if seen.block else str(seen.index)


def _record(stubs: dict[str, str], eligible: list[Observation], ledger: Ledger, now_ms: int) -> Record:
    start, end = eligible[0].index, eligible[-1].index + 1
    return record_of(ledger.heads, "elided", start, end, now_ms, stubs=stubs)
