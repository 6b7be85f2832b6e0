"""Where history is cut: what stays as it is at the end, and how far a span may reach."""

from bisect import bisect_left

from msgspec import Struct

from foldahead.core.ledger import Ledger
from foldahead.core.policy import Policy
from foldahead.core.view import Active


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
    start = starts[-wanted] if len(starts) >= wanted else prefix_end
    most = policy.preserve_recent_tokens / slope
    if starts and ledger.span_tokens(start, len(ledger)) > most:
        first_that_fits = bisect_left(ledger.tokens, ledger.tokens[-1] - most)
        turn = bisect_left(starts, max(first_that_fits, start))
        start = starts[min(turn, len(starts) - 1)]
    return max(start, prefix_end)


def current_cut(ledger: Ledger, policy: Policy, active: Active, tail: int) -> Cut:
    """The span that a summary may stand for now: from the stable prefix, or, where each generation keeps its own
    summary, from the last one that is there to stay. A `native` one is always the first message of a view."""
    if policy.kind == "native" and policy.resummarise and (cut := _cut_at_a_turn_of_role(ledger, tail)).found:
        return cut
    return find_cut(ledger, tail, 0 if policy.resummarise else active.settled_end)


def _cut_at_a_turn_of_role(ledger: Ledger, tail: int) -> Cut:
    """The last legal cut at which role changes: only there thinking behind a block of the provider's stays valid."""
    cut = find_cut(ledger, tail)
    while cut.found and not turns_role(ledger, cut.end):
        cut = find_cut(ledger, cut.end - 1)
    return cut


def turns_role(ledger: Ledger, at: int) -> bool:
    """Whether the message at an index has another role than the one before it, and is no system message. At the end
    of the history nothing stands behind a cut."""
    if not 0 < at < len(ledger):
        return True
    return ledger.traits[at].role not in (ledger.traits[at - 1].role, "system")


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
