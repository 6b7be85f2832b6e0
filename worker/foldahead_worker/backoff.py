"""How long a session rests after jobs that failed: whatever its next turns offer fails likely for the same reason.

Pure. The count is kept with the session's state in Redis; a summary that is made sets it to nothing.
"""

from foldahead_worker.store.schema import Urgency

FIRST_MS: dict[Urgency, int] = {"ahead": 30_000, "forced": 5_000}
MOST_MS: dict[Urgency, int] = {"ahead": 30 * 60_000, "forced": 2 * 60_000}
"""At its hard cap a session sends what rules make of it until an answer comes: it is tried sooner."""
_MOST_DOUBLINGS = 20


def rest_ms(failures: int, urgency: Urgency) -> int:
    """From the last of so many failures in a row to the next try."""
    if failures <= 0:
        return 0
    return min(MOST_MS[urgency], FIRST_MS[urgency] * 2 ** min(failures - 1, _MOST_DOUBLINGS))
