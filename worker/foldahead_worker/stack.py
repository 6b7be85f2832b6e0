"""The server side as child processes of this one: an embedded Redis, a watcher, a worker.

What `foldahead demo`, `play` and `up` run. A child says on its standard output when it is ready, logs to a file, and
ends with its parent however that ends: it watches its standard input, whose other end closes then.

    StackError    a child did not come up; the message ends with its last log lines
"""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self, cast

import msgspec

from foldahead.errors import FoldaheadError
from foldahead_worker.embedded.redis_server import EmbeddedRedis
from foldahead_worker.settings import Settings, environment_for

READY = "ready"
READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 8.0
"""A worker hands back what it has leased; that takes a moment, never this long."""
ORPHAN_EXIT_S = 5.0
"""A child whose parent is gone has this long to end in order."""
EXIT_NOTICE_S = 0.5
"""Between the close of a child's output and its end."""
_LOG_TAIL_BYTES = 2_000
KINDS = ("watch", "work")


class StackError(FoldaheadError):
    """A process of the stack did not come up, or ended."""


class Child:
    """One process of ours: `foldahead watch` or `foldahead work`, with its log file."""

    def __init__(self, kind: str, settings: Settings, log: Path, environ: Mapping[str, str] | None = None) -> None:
        """`environ`: what it inherits beside the settings, this process's unless given."""
        self.kind = kind
        self.log = log
        self._settings = settings
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id; None when it was not started."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it; `wait_ready` says when it is of use. A session of its own: Ctrl-C reaches the parent alone."""
        command = [sys.executable, "-m", "foldahead_worker.cli", self.kind, "--exit-with-stdin"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment_for(self._settings, self._environ),
                start_new_session=True,
            )

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until it has said that it is ready. Raises StackError with what it last logged."""
        process = self._running()
        if READY in _first_line(cast("IO[bytes]", process.stdout), timeout_s):
            return
        try:
            how = f"ended with status {process.wait(EXIT_NOTICE_S)}"
        except subprocess.TimeoutExpired:
            how = f"did not come up in {timeout_s:g} s"
        raise StackError(f"foldahead {self.kind} {how}: {self.last_words()}")

    def ended(self) -> int | None:
        """Its exit status, once it has ended."""
        return self._running().poll()

    def last_words(self) -> str:
        """The last line of its log."""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _LOG_TAIL_BYTES))
            lines = log.read().decode("utf8", "replace").strip().splitlines()
            return lines[-1] if lines else "it logged nothing"
        return "it left no log"

    def ask_to_stop(self) -> None:
        """SIGTERM; harmless when it has ended."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """SIGTERM, and SIGKILL when that was not enough in time. Harmless when it has ended."""
        process = self._process
        if process is None:
            return
        self.ask_to_stop()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise StackError(f"foldahead {self.kind} was not started")
        return self._process


class Stack:
    """A watcher and a worker as children of this process; also a context manager."""

    def __init__(
        self, settings: Settings, logs: Path, kinds: Sequence[str] = KINDS, environ: Mapping[str, str] | None = None
    ) -> None:
        """`environ`: what the children inherit beside the settings, this process's unless given."""
        self.settings = settings
        self.children = tuple(Child(kind, settings, logs / f"{kind}.log", environ) for kind in kinds)
        self.server: EmbeddedRedis | None = None
        """The embedded Redis that these two have to themselves, where there is one."""

    def start(self) -> None:
        """Start both and wait until they are ready. Raises StackError; nothing is left running then."""
        try:
            for child in self.children:
                child.start()
            for child in self.children:
                child.wait_ready()
        except BaseException:
            self.stop()
            raise

    def check(self) -> None:
        """Raises StackError when one has ended, or the Redis that was started with them."""
        if self.server is not None and not self.server.is_running:
            raise StackError("the embedded Redis ended")
        for child in self.children:
            if (status := child.ended()) is not None:
                raise StackError(f"foldahead {child.kind} ended with status {status}: {child.last_words()}")

    def stop(self) -> None:
        """Stop both, at the same time."""
        for child in self.children:
            child.ask_to_stop()
        for child in self.children:
            child.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@contextlib.contextmanager
def private_stack(settings: Settings, environ: Mapping[str, str] | None = None) -> Generator[Stack]:
    """A stack of one's own in a temporary directory, Redis and database included; nothing of it stays.

    `environ`: what its processes inherit beside the settings, this process's unless given.

    Raises StackError, EmbeddedRedisError.
    """
    with tempfile.TemporaryDirectory(prefix="foldahead-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        with EmbeddedRedis(directory / "redis") as server:
            own = msgspec.structs.replace(
                settings,
                redis_url=server.url,
                broker_url=server.url,
                database_url=f"sqlite:///{directory}/foldahead.db",
            )
            with Stack(own, directory, environ=environ) as stack:
                stack.server = server
                yield stack


def end_with_stdin(on_end: Callable[[], None]) -> None:
    """For a child: call `on_end` when standard input closes, which the end of the parent does; then insist."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        on_end()
        time.sleep(ORPHAN_EXIT_S)
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def terminate_self() -> None:
    """SIGTERM to this process: what an orphan does."""
    os.kill(os.getpid(), signal.SIGTERM)


def say_ready(what: str) -> None:
    """For a child, and for people: one line on standard output, past whatever was done to `sys.stdout`."""
    os.write(1, f"{what} {READY}\n".encode())


def _first_line(pipe: IO[bytes], timeout_s: float) -> str:
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        heard = selector.select(timeout_s)
    return pipe.readline().decode("utf8", "replace") if heard else ""
