"""Mending what came in broken: in the view, with the least change, always by a record.

Results that stand behind something else are moved to their call, system messages that a user's follows behind it,
where the provider wants them there. Results without a call, calls that the
conversation has gone past, empty blocks and empty messages are taken out. One id used twice is left alone, and
reported. A fault inside a span that a summary stands for needs no mending.
"""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from foldahead.core.dialect import Dialect, as_plain, role_of
from foldahead.core.ledger import Ledger
from foldahead.core.pairing import Fault
from foldahead.core.record import Record, record_of
from foldahead.core.view import CONTINUATION, Active

_LEFT_ALONE = ("repeated_id",)


def repairs(history: list[Any], ledger: Ledger, active: Active, now_ms: int) -> list[Record]:
    """Records for the faulty turns behind the watermark that are not mended yet."""
    if not ledger.faults:
        return []
    faulty: defaultdict[int, list[Fault]] = defaultdict(list)
    for fault in ledger.faults:
        if fault.index >= _mended_from(active) and not _left_alone(fault, ledger):
            faulty[ledger.turn_start_at(fault.index)].append(fault)
    latest = {record.start: record for record in active.edits if record.kind == "repaired"}
    made: list[Record] = []
    for turn_start, faults in sorted(faulty.items()):
        turn = (max(turn_start, active.end), ledger.turn_end_at(turn_start))
        if not _is_done(range(*turn), _reason(faults), latest, ledger):
            made += _mended(history, ledger, turn, faults, latest, now_ms)
    return made


def may_mend(ledger: Ledger, active: Active) -> bool:
    """Whether any fault stands where faults are mended."""
    since = _mended_from(active)
    return any(fault.index >= since for fault in reversed(ledger.faults))


def _mended_from(active: Active) -> int:
    """Index from which on faults are mended: not in a span that a summary stands for, nor where a view was refused."""
    return max(active.end, active.withdrawn)


def _is_done(turn: range, reason: str, latest: dict[int, Record], ledger: Ledger) -> bool:
    """Whether a turn was mended of these faults, and no word put in at its end has since got company behind it."""
    mended = [at for at in turn if at in latest and latest[at].reason == reason]
    word = ledger.dialect.user_message(CONTINUATION)
    put_in = next((at for at in mended if latest[at].message == word), None)
    if put_in is None:
        return bool(mended)
    return not any(at not in latest or latest[at].message is not None for at in turn[put_in - turn.start + 1 :])


def _left_alone(fault: Fault, ledger: Ledger) -> bool:
    """An empty message at the very end is the caller's to fill; taking it out would change who speaks next."""
    return fault.kind in _LEFT_ALONE or (fault.kind == "empty_message" and fault.index == len(ledger) - 1)


def _reason(faults: Iterable[Fault]) -> str:
    kinds = sorted(fault.kind for fault in faults)
    return ",".join(f"{kind}:{kinds.count(kind)}" for kind in dict.fromkeys(kinds))


def _mended(
    history: list[Any],
    ledger: Ledger,
    turn: tuple[int, int],
    faults: list[Fault],
    latest: dict[int, Record],
    now_ms: int,
) -> list[Record]:
    """A record for each message of a turn that is to stand in the view otherwise than it does."""
    made: list[Record] = []
    for index, message in zip(range(*turn), _without_faults(history, ledger, turn, faults), strict=True):
        shown = latest[index].message if index in latest else history[index]
        with suppress(RecursionError):  # what is nested too deeply for a record is left, and reported
            if message is not shown and (plain := as_plain(message)) != as_plain(shown):
                reason = _reason(faults)
                made.append(record_of(ledger.heads, "repaired", index, index + 1, now_ms, message=plain, reason=reason))
    return made


def _without_faults(history: list[Any], ledger: Ledger, turn: tuple[int, int], faults: list[Fault]) -> list[Any | None]:
    """The messages of a turn as they are to stand in the view."""
    dialect, (start, end) = ledger.dialect, turn
    blocks: defaultdict[int, set[int]] = defaultdict(set)
    apart = False
    for fault in faults:
        if fault.kind == "result_apart" and _call_is_shown(ledger, fault, start):
            apart = True
        elif fault.kind != "system_apart":
            blocks[fault.index].add(fault.block)
    wanted = [
        _without_blocks(dialect, history[at], blocks[at]) if at in blocks else history[at] for at in range(start, end)
    ]
    if apart:
        answers = [at for at, message in enumerate(wanted) if message is not None and role_of(message) != "assistant"]
        for at, message in zip(answers, dialect.results_first([wanted[at] for at in answers]), strict=True):
            wanted[at] = message
    if any(fault.kind == "system_apart" for fault in faults):
        _put_systems_last(wanted, max(0, ledger.stable_prefix_end() - start))
    return [_stand_in(wanted, at, start, ledger) if message is None else message for at, message in enumerate(wanted)]


def _put_systems_last(wanted: list[Any | None], since: int) -> None:
    """The system messages of a turn behind its users', in place."""
    places = [
        at
        for at, message in enumerate(wanted)
        if at >= since and message is not None and role_of(message) != "assistant"
    ]
    ordered = sorted((wanted[at] for at in places), key=lambda message: role_of(message) != "user")
    for at, message in zip(places, ordered, strict=True):
        wanted[at] = message


def _call_is_shown(ledger: Ledger, fault: Fault, start: int) -> bool:
    return ledger.turn_start_at(fault.index) >= start


def _without_blocks(dialect: Dialect, message: Any, blocks: set[int]) -> Any | None:
    return None if -1 in blocks else dialect.without_blocks(message, frozenset(blocks))


def _stand_in(wanted: list[Any | None], at: int, start: int, ledger: Ledger) -> Any | None:
    """A word of the user's where a message taken out would leave the conversation without one: at its very
    beginning or end, or ahead of a system message."""
    index, profile = start + at, ledger.dialect.profile
    if ledger.traits[index].role in ("assistant", "system", "developer"):
        return None
    opens = index == ledger.stable_prefix_end() and profile.opens_with_user
    after_assistant = at > 0 and wanted[at - 1] is not None and role_of(wanted[at - 1]) == "assistant"
    ends = start + len(wanted) == len(ledger) and not any(wanted[at:])
    follows = profile.places_system and index + 1 < len(ledger) and ledger.traits[index + 1].system
    needed = opens or (after_assistant and (ends or follows))
    return ledger.dialect.user_message(CONTINUATION) if needed else None


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
        case "system_apart":
            return f"{place}: a system message with the user's behind it"
        case "repeated_id":
            return f"{place}: id {fault.call!r} is used twice in one turn; left as it is"
