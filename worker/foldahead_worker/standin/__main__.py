"""`python -m foldahead_worker.standin`: serves until it is told to stop, and first says its URL."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import msgspec

from foldahead_worker.standin.options import Options
from foldahead_worker.standin.server import StandInServer


def main() -> int:
    """Runs the stand-in as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m foldahead_worker.standin", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--options", default="{}", help="options as JSON, see standin/options.py")
    parser.add_argument("--ready-file", type=Path, help="the URL is written here once it serves")
    parser.add_argument("--exit-with-stdin", action="store_true", help="end when standard input ends")
    arguments = parser.parse_args()
    options = msgspec.json.decode(arguments.options, type=Options)
    server = StandInServer(options, arguments.host, arguments.port)

    def stop(signum: int = 0, frame: FrameType | None = None) -> None:  # noqa: ARG001
        # shutdown() waits for the serving loop, which is in this thread when a signal comes.
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if arguments.exit_with_stdin:
        threading.Thread(target=_await_end_of_input, args=(stop,), daemon=True).start()
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    if arguments.ready_file is not None:
        arguments.ready_file.write_text(server.url)
    with server:
        server.serve_forever(poll_interval=0.05)
    return 0


def _await_end_of_input(stop: Callable[[], None]) -> None:
    # Unbuffered: a thread that sits in sys.stdin.buffer holds a lock that the interpreter's end needs.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    stop()


if __name__ == "__main__":
    raise SystemExit(main())
