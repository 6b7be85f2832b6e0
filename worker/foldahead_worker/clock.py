"""The server side's clock, in one place."""

import time


def now_ms() -> int:
    """Milliseconds since 1970, for rows and events.

    Two hosts' values are compared in one place: when a job is due again. `foldahead doctor` looks whether they agree.
    """
    return time.time_ns() // 1_000_000
