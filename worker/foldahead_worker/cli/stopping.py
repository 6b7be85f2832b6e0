"""Ending in order: SIGTERM unwinds like Ctrl-C does, so that whatever was started is stopped."""

import signal
import threading
from collections.abc import Callable
from typing import NoReturn

TERMINATED = 128 + signal.SIGTERM


def stop_in_order() -> None:
    """From now on SIGTERM raises SystemExit(143) on the main thread."""
    signal.signal(signal.SIGTERM, _raise_exit)


def call_at_signals(stop: Callable[[], None]) -> None:
    """Call `stop` at the first SIGTERM or Ctrl-C, on a thread of its own; further ones change nothing.

    Not in a handler: that interrupts the main thread, and may wait for a lock which that one has. To be called before
    other threads are started, which must not be handed these signals either.
    """
    wanted = (signal.SIGTERM, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)

    def wait() -> None:
        signal.sigwait(wanted)
        stop()

    threading.Thread(target=wait, name="signals", daemon=True).start()


def _raise_exit(number: int, frame: object) -> NoReturn:  # noqa: ARG001
    raise SystemExit(TERMINATED)
