"""Ending in order: SIGTERM unwinds like Ctrl-C does, so that whatever was started is stopped."""

import signal
from typing import NoReturn

TERMINATED = 128 + signal.SIGTERM


def stop_in_order() -> None:
    """From now on SIGTERM raises SystemExit(143) on the main thread."""
    signal.signal(signal.SIGTERM, _raise_exit)


def _raise_exit(number: int, frame: object) -> NoReturn:  # noqa: ARG001
    raise SystemExit(TERMINATED)
