"""Mending what came in broken: in the view, with the least change, always by a record.

Results without their call, calls that the conversation has gone past, empty blocks and messages are taken out; one
id used twice is left alone, and reported. A fault inside a span that a summary stands for needs no mending.
"""

from collections import defaultdict
from typing import Any

from foldahead.core.ledger import Ledger
from foldahead.core.pairing import Fault
from foldahead.core.record import Record
from foldahead.core.view import Active

_LEFT_ALONE = ("repeated_id",)


def repairs(history: list[Any], ledger: Ledger, active: Active, now_ms: int) -> list[Record]:
    """Records for the faulty messages behind the watermark that are not mended yet."""
    if not ledger.faults:
        return []
    mended = {record.start: record for record in active.edits if record.kind == "repaired"}
    faults: defaultdict[int, list[Fault]] = defaultdict(list)
    for fault in ledger.faults:
        if fault.index >= active.end and fault.kind not in _LEFT_ALONE and not _is_last(fault, ledger):
            faults[fault.index].append(fault)
    made: list[Record] = []
    for index, found in sorted(faults.items()):
        reason = ",".join(sorted({fault.kind for fault in found})) + f":{len(found)}"
        if index not in mended or mended[index].reason != reason:
            made.append(_repaired(history, ledger, index, found, reason, now_ms))
    return made


def _is_last(fault: Fault, ledger: Ledger) -> bool:
    """An empty message at the very end is the caller's to fill; taking it out would change who speaks next."""
    return fault.kind == "empty_message" and fault.index == len(ledger) - 1


def _repaired(
    history: list[Any], ledger: Ledger, index: int, found: list[Fault], reason: str, now_ms: int
) -> Record:
    blocks = frozenset(fault.block for fault in found)
    message = None if -1 in blocks else ledger.dialect.without_blocks(history[index], blocks)
    return Record(
        kind="repaired",
        start=index,
        end=index + 1,
        head_start=ledger.heads[index].hex(),
        head_end=ledger.heads[index + 1].hex(),
        message=message,
        reason=reason,
        created_at_ms=now_ms,
    )


def describe(fault: Fault) -> str:
    """A fault in words, for reports: where, what, never content."""
    place = f"messages[{fault.index}]" + (f".content[{fault.block}]" if fault.block >= 0 else "")
    match fault.kind:
        case "orphan_result":
            return f"{place}: result for call {fault.call!r}, which is not in the turn before it"
        case "result_apart":
            return f"{place}: result for call {fault.call!r} stands apart from its call"
        case "dead_call":
            return f"{place}: call {fault.call!r} of {fault.tool} was never answered"
        case "empty_block":
            return f"{place}: empty text"
        case "empty_message":
            return f"{place}: nothing in it"
        case "repeated_id":
            return f"{place}: id {fault.call!r} is used twice in one turn; left as it is"
