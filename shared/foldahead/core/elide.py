"""Observation ageing (second seed): old fat tool results become one-line stubs, in place, a batch at a time.

The stub is a pure function of the tool's name and the length of the result, so two runs of one conversation give
the same bytes.
"""

import re
from typing import Any

import msgspec
from msgspec import Struct

from foldahead.core import canonical
from foldahead.core.ledger import Ledger
from foldahead.core.messages import Call, Result, text_of
from foldahead.core.policy import Policy
from foldahead.core.record import Record
from foldahead.core.tokens import BYTES_PER_TOKEN, estimate_text
from foldahead.core.view import Active

_STUB = re.compile(r"\[elided by the harness: (\d+)-char .* result; re-run the call if you need it again\]")


def stub_for(tool: str, chars: int) -> str:
    """What stands in place of a result."""
    return f"[elided by the harness: {chars}-char {tool} result; re-run the call if you need it again]"


def tokens_saved(stub: str) -> int:
    """Estimate of what a stub saves, from the length that it names."""
    found = _STUB.fullmatch(stub)
    return max(0, int(int(found[1]) / BYTES_PER_TOKEN) - estimate_text(stub)) if found else 0


class _Seen(Struct):
    index: int
    block: int
    tool: str
    chars: int
    identity: bytes | None


def elision(
    history: list[Any], ledger: Ledger, active: Active, region: tuple[int, int], policy: Policy, now_ms: int
) -> tuple[Record | None, int]:
    """The next batch of a region as a record, and the characters that it reclaims; (None, 0) when there is none."""
    start, end = region
    if ledger.result_chars[end] - ledger.result_chars[start] == 0:
        return None, 0
    done = {place for record in active.edits for place in record.stubs or {}}
    mended = {record.start for record in active.edits if record.kind == "repaired"}
    results = _results(history, ledger, start)
    newest = {seen.identity: (seen.index, seen.block) for seen in results if seen.identity is not None}
    counts: dict[bytes | None, int] = {}
    for seen in results:
        counts[seen.identity] = counts.get(seen.identity, 0) + 1
    stubs: dict[str, str] = {}
    reclaimed = 0
    for seen in results:
        place, stub = _place(seen), stub_for(seen.tool, seen.chars)
        if seen.index >= end or place in done or seen.index in mended or seen.chars <= len(stub):
            continue
        repeated = seen.identity is not None and counts[seen.identity] > 1
        newest_of_it = repeated and newest[seen.identity] == (seen.index, seen.block)
        grace = ledger.chars[-1] - ledger.chars[seen.index + 1]
        aged = seen.chars > policy.age_min_chars and grace >= policy.age_reclaim_min
        if not newest_of_it and (repeated or aged):
            stubs[place] = stub
            reclaimed += seen.chars - len(stub)
    if not stubs:
        return None, 0
    return _record(stubs, ledger, now_ms), reclaimed


def _results(history: list[Any], ledger: Ledger, start: int) -> list[_Seen]:
    """Every result from an index on, newest duplicates in the tail included, each with the identity of its call."""
    seen: list[_Seen] = []
    calls: list[Call] = []
    for index in range(ledger.turn_start_at(start), len(ledger)):
        message = ledger.dialect.read(history[index], index)
        if message.role == "assistant":
            if index in ledger.turn_starts[-1:] or ledger.turn_start_at(index) == index:
                calls = []
            calls = [*calls, *(block for block in message.blocks if isinstance(block, Call))]
            continue
        for at, block in enumerate(message.blocks):
            if isinstance(block, Result) and index >= start:
                call = next((call for call in calls if call.id == block.call), None)
                text = text_of(block.parts)
                if not _STUB.fullmatch(text):
                    seen.append(_Seen(index, at, call.name if call else "tool", len(text), _identity(call)))
    return seen


def _identity(call: Call | None) -> bytes | None:
    """The tool's name and its canonical arguments; a result whose call is gone has none."""
    if call is None:
        return None
    arguments = call.arguments
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except (msgspec.DecodeError, RecursionError):
            pass
    return msgspec.msgpack.encode((call.name, canonical.plain(arguments)), order="deterministic")


def _place(seen: _Seen) -> str:
    return f"{seen.index}/{seen.block}" if seen.block else str(seen.index)


def _record(stubs: dict[str, str], ledger: Ledger, now_ms: int) -> Record:
    indices = [int(place.partition("/")[0]) for place in stubs]
    start, end = min(indices), max(indices) + 1
    return Record(
        kind="elided",
        start=start,
        end=end,
        head_start=ledger.heads[start].hex(),
        head_end=ledger.heads[end].hex(),
        stubs=stubs,
        created_at_ms=now_ms,
    )
