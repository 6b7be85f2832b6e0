"""Waiting for a condition, in place of sleeping and hoping."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout_s: float = 10, every_s: float = 0.01) -> None:
    """Returns as soon as `condition()` is true; fails the test when it is not within `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            name = getattr(condition, "__qualname__", repr(condition))
            raise AssertionError(f"not true within {timeout_s:g} s: {name}")
        time.sleep(every_s)
