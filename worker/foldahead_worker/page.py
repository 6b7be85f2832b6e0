"""The page of a server process: `/metrics` for Prometheus and `/health` for whoever restarts things.

Counts and names of models, no session and no content; still on loopback unless a setting says otherwise.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from foldahead.errors import FoldaheadError
from foldahead_worker.metrics import Metrics
from foldahead_worker.readings import Reading, faults_of

MEASURE_EVERY_S = 2.0
STALE_AFTER_S = 15.0
"""A reading that is older says nothing: Redis or the database do not answer."""
REQUEST_TIMEOUT_S = 5.0


class PageTaken(FoldaheadError):
    """The port of the page is not free, or not ours to take. The text names host and port."""


class Vitals:
    """The last reading of this process, and what is wrong. `measure` is one round of a loop."""

    def __init__(self, take: Callable[[], Reading], metrics: Metrics, due_limit_s: float) -> None:
        self._take = take
        self._metrics = metrics
        self._due_limit_s = due_limit_s
        self._faults: tuple[str, ...] = ()
        self._measured_at_s = time.monotonic()

    def measure(self) -> None:
        """Take a reading. Raises what it raises; the one before stands until it is stale."""
        reading = self._take()
        self._metrics.measured(reading)
        self._faults = faults_of(reading, self._due_limit_s)
        self._measured_at_s = time.monotonic()

    def faults(self) -> tuple[str, ...]:
        """What is wrong now; empty when all is well."""
        age_s = time.monotonic() - self._measured_at_s
        if age_s > STALE_AFTER_S:
            return (f"nothing could be measured for {age_s:.0f} s: Redis or the database do not answer",)
        return self._faults


class Page:
    """An HTTP server in a thread of its own, from `start` to `stop`."""

    def __init__(self, host: str, port: int, metrics: Metrics, vitals: Vitals) -> None:
        """Takes the port; 0 takes a free one. Raises `PageTaken`."""
        try:
            self._server = _Server((host, port), _handler(metrics, vitals))
        except OSError as error:
            raise PageTaken(
                f"the page for metrics cannot listen on {host}:{port}: {error.strerror or error}"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="page", daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.server_address[1]

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Give the port back."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@contextmanager
def page_at(host: str, port: int, metrics: Metrics, vitals: Vitals) -> Generator[None, None, None]:
    """The page for as long as the block runs; none where the port is 0. Raises `PageTaken`."""
    if port == 0:
        yield
        return
    with Page(host, port, metrics, vitals):
        yield


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away in the middle is its own affair; the default prints a traceback."""


def _handler(metrics: Metrics, vitals: Vitals) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_TIMEOUT_S
        server_version = "foldahead"
        sys_version = ""

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/metrics":
                    self._answer(200, CONTENT_TYPE_LATEST, generate_latest(metrics.registry))
                case "/health":
                    faults = vitals.faults()
                    said = "\n".join(faults) if faults else "ok"
                    self._answer(503 if faults else 200, "text/plain; charset=utf-8", f"{said}\n".encode())
                case _:
                    self._answer(404, "text/plain; charset=utf-8", b"there are /metrics and /health\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """A scrape every few seconds is no event."""

    return Handler
