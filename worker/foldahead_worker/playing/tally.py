"""Adds up the turns of one session. Pure."""

import re

from foldahead_worker.playing.plays import Degraded, Swap
from foldahead_worker.playing.taking import Taken

MOST_FAULTS = 100
"""Kept of one session: the same fault comes again in every later request."""
_WAYS_DOWN = {"swapped": "extract", "truncated": "truncated"}
_NO_REASONS = ("", "below_threshold", "not_ready", "degraded")
"""Of an unchanged view that is due: these say nothing about why there will be no swap."""


class Tally:
    """What one session came to so far."""

    def __init__(self) -> None:
        self.swaps: list[Swap] = []
        self.degraded: list[Degraded] = []
        self.quiet_ms: list[float] = []
        self.elided_turns = 0
        self.exhausted_turns = 0
        self.requests = 0
        self.refused = 0
        self.validity_faults: list[str] = []
        self.recorded_faults: dict[str, None] = {}
        self._reasons: dict[str, str] = {}
        self._due_from: tuple[int, int] | None = None
        self._last_turn = 0
        self._late = False
        self._held = False

    def take(self, taken: Taken) -> None:
        """Count one turn."""
        self._last_turn = taken.number
        self.requests += taken.requests
        self.refused += len(taken.refused)
        if taken.due and self._due_from is None:
            self._due_from = (taken.number, taken.tokens_before)
        self.exhausted_turns += taken.exhausted
        self.elided_turns += taken.outcome == "elided"
        by_rules = taken.reason == "extract" or taken.outcome == "truncated"
        if by_rules:
            how = _WAYS_DOWN[taken.outcome]
            self.degraded.append(
                Degraded(turn=taken.number, how=how, tokens_before=taken.tokens_before, tokens_after=taken.tokens_after)
            )
        if taken.outcome == "swapped":
            self._swapped(taken, in_time=not (by_rules or self._late))
            return
        self.quiet_ms.append(taken.added_ms)
        # Not late: the servers would not make one yet, or have only just begun to find it worth its cost.
        held = bool(taken.declined)
        self._late |= taken.due and not (taken.has_ready or held or self._held)
        self._held = held
        if taken.due:
            self._note_reasons(taken)

    def fault(self, turn: int, ours: list[str], recorded: list[str]) -> None:
        """Count what a provider would refuse."""
        room = MOST_FAULTS - len(self.validity_faults)
        self.validity_faults += [f"turn {turn}: {fault}" for fault in ours[: max(0, room)]]
        for fault in recorded:
            if len(self.recorded_faults) < MOST_FAULTS:
                self.recorded_faults[fault] = None

    @property
    def not_worth_it(self) -> tuple[str, ...]:
        """Why a session that crossed its threshold never swapped, the latest numbers of each reason; else empty."""
        if self.swaps or self._due_from is None:
            return ()
        return tuple(self._reasons.values()) or (self._ended_first(self._due_from),)

    def _ended_first(self, due_from: tuple[int, int]) -> str:
        turn, tokens = due_from
        return (
            f"ended before a summary was ready: {tokens} tokens were pending at turn {turn}, "
            f"where the threshold was reached, and the last turn was {self._last_turn}"
        )

    def _swapped(self, taken: Taken, in_time: bool) -> None:
        self.swaps.append(
            Swap(
                turn=taken.number,
                kind=taken.kind,
                added_ms=round(taken.added_ms, 3),
                tokens_before=taken.tokens_before,
                tokens_after=taken.tokens_after,
                ready_before_needed=in_time,
            )
        )
        self._late = self._held = False

    def _note_reasons(self, taken: Taken) -> None:
        for reason in (taken.reason, taken.declined):
            if reason not in _NO_REASONS:
                self._reasons[re.split(r"[:0-9]", reason)[0]] = _with_numbers(reason, taken)


def _with_numbers(reason: str, taken: Taken) -> str:
    """A reason with the arithmetic behind it; one that is about no numbers says when it was so."""
    if reason == "not_smaller":
        left, target = taken.least_tokens, taken.target_tokens
        return (
            f"not_smaller: {left} of {taken.tokens_before} tokens would stay with the summary at hand, target {target}"
        )
    if any(map(str.isdigit, reason)):
        return reason
    return f"{reason}: at turn {taken.number}, with {taken.tokens_before} tokens pending"


def percentile(values: list[float], part: float) -> float:
    """The value that `part` of the values do not exceed; 0 of none."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 3) if ordered else 0.0
