"""A stand-in in a process of its own, for tests and for `foldahead play`."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, Any, Self, cast
from urllib.request import ProxyHandler, Request, build_opener

import msgspec

from foldahead_worker.standin.ledger import Call
from foldahead_worker.standin.options import Options
from foldahead_worker.standin.script import Scripted

_CONTROL_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 5.0


class StandInFailed(RuntimeError):
    """The stand-in's process did not come up."""


class RunningStandIn:
    """A running stand-in. `url` is the `base_url` of a client; leaving the context stops it."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.pid = process.pid
        self._process = process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def script(self, *entries: Scripted) -> None:
        """Queues answers."""
        self._ask("POST", "/_standin/script", msgspec.json.encode(entries))

    def clear_script(self) -> None:
        """Forgets the queued answers."""
        self._ask("DELETE", "/_standin/script")

    def ledger(self, kind: str | None = None) -> list[Call]:
        """Reads the books: all calls, or those of one kind, oldest first."""
        answer = self._ask("GET", "/_standin/ledger")
        calls = msgspec.convert(answer["calls"], list[Call])
        return [call for call in calls if kind in (None, call.kind)]

    def request(self, n: int) -> dict[str, Any]:
        """Reads the body of a recent call by its number in the books."""
        return self._ask("GET", f"/_standin/requests/{n}")

    def reset_ledger(self) -> None:
        """Empties the books."""
        self._ask("DELETE", "/_standin/ledger")

    def reset(self) -> None:
        """Empties books, queue and prompt cache."""
        self._ask("POST", "/_standin/reset")

    def is_alive(self) -> bool:
        """Says whether the process runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Ends the process; a second call does nothing."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _ask(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        request = Request(self.url + path, data=body, method=method)
        # Never through a proxy of the environment: the stand-in is on the loopback.
        with build_opener(ProxyHandler({})).open(request, timeout=_CONTROL_TIMEOUT_S) as response:
            return json.load(response)


def start_standin(
    options: Options | None = None,
    *,
    port: int = 0,
    timeout_s: float = 20.0,
    environ: Mapping[str, str] | None = None,
) -> RunningStandIn:
    """Starts a stand-in on a loopback port (0: a free one) and waits until it answers.

    It ends with this process at the latest: it watches a pipe that the end of this process closes. A session of its
    own: Ctrl-C reaches the parent alone. `environ`: this process's unless given.

    Raises:
        StandInFailed: it did not say its URL within `timeout_s`.
    """
    settings = msgspec.json.encode(options or Options()).decode()
    command: Sequence[str] = (
        *(sys.executable, "-m", "foldahead_worker.standin"),
        *("--port", str(port), "--options", settings, "--exit-with-stdin"),
    )
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, start_new_session=True
    )
    url = _first_line(cast("IO[bytes]", process.stdout), timeout_s)
    running = RunningStandIn(url, process)
    if not url:
        running.stop()
        raise StandInFailed(f"the stand-in did not start within {timeout_s:g} s")
    return running


def _first_line(pipe: IO[bytes], timeout_s: float) -> str:
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        ready = selector.select(timeout_s)
    return pipe.readline().decode().strip() if ready else ""
