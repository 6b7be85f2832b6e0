"""Where history is cut: what stays as it is at the end, and how far a span may reach."""

from bisect import bisect_left

from msgspec import Struct

from foldahead.core.ledger import Ledger
from foldahead.core.policy import Policy


class Cut(Struct, frozen=True):
    """A span `start`..`end` that one summary may stand for. `reason` says why there is none (then end == start)."""

    start: int
    end: int
    reason: str = ""

    @property
    def found(self) -> bool:
        """Whether there is anything to compact."""
        return self.end > self.start


def tail_start(ledger: Ledger, policy: Policy, slope: float = 1.0) -> int:
    """Index at which the preserved tail begins.

    The last `preserve_recent_turns` turns; fewer turns than that: all after the stable prefix. Above
    `preserve_recent_tokens` whole oldest turns are given up, never the last.
    """
    wanted = policy.preserve_recent_turns
    if wanted == 0:
        return len(ledger)
    prefix_end = ledger.stable_prefix_end()
    starts = ledger.turn_starts
    if len(starts) < wanted:
        start = prefix_end
        first_turn = 0
    else:
        first_turn = len(starts) - wanted
        start = starts[first_turn]
    most = policy.preserve_recent_tokens / slope
    if starts and ledger.span_tokens(start, len(ledger)) > most:
        first_turn = bisect_left(ledger.tokens, ledger.tokens[-1] - most)
        later = bisect_left(starts, max(first_turn, start))
        start = starts[min(later, len(starts) - 1)]
    return max(start, prefix_end)


def find_cut(ledger: Ledger, tail: int, least_start: int = 0) -> Cut:
    """The span from the stable prefix (or `least_start`) to the last legal cut at or before the tail."""
    start = max(least_start, ledger.stable_prefix_end())
    if tail <= start:
        return Cut(start, start, "nothing_to_compact")
    end = last_cut(ledger, start, tail)
    return Cut(start, end, "" if end > start else "no_valid_boundary")


def last_cut(ledger: Ledger, start: int, most: int) -> int:
    """The last legal cut after `start` and up to `most`; `start` when there is none."""
    end = most
    while end > start and not ledger.cuttable(end):
        end -= 1
    return end
