"""The stand-in's HTTP: the routes of the Claude API that foldahead uses, and its own under `/_standin/`."""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from foldahead_worker.standin.catalogue import model_info
from foldahead_worker.standin.fault import Json
from foldahead_worker.standin.judgement import Refusal
from foldahead_worker.standin.models import find_model
from foldahead_worker.standin.options import Options
from foldahead_worker.standin.ratelimit import RateWindow
from foldahead_worker.standin.script import Scripted
from foldahead_worker.standin.sending import Sender
from foldahead_worker.standin.service import Incoming, Service
from foldahead_worker.standin.sse import error_body

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
_DRAIN_BYTES: Final = 256 * 1024 * 1024
_CHUNK_BYTES: Final = 1 << 20
_MESSAGES: Final = "/v1/messages"
_COUNT: Final = "/v1/messages/count_tokens"
_MODELS: Final = "/v1/models/"


class StandInServer(ThreadingHTTPServer):
    """A stand-in in this process; `start_standin` gives one in a process of its own."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, options: Options, host: str = "127.0.0.1", port: int = 0) -> None:
        self.service = Service(options, time.monotonic, time.time)
        self.rates = RateWindow(time.monotonic, time.time)
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Lets a client that went away go in silence; anything else is a bug of ours and is shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: StandInServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Says nothing: the ledger is the log."""

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        if path in (_MESSAGES, _COUNT):
            self._call(path == _COUNT)
        elif path == "/_standin/script":
            self._queue(self._body() or b"")
        elif path == "/_standin/reset":
            self._body()
            self.server.service.reset()
            self._json(200, {})
        else:
            self._body()
            self._error(Refusal(404, f"{path} is not served"))

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path.startswith(_MODELS):
            name = path.removeprefix(_MODELS)
            model = find_model(name)
            if model is None:
                self._error(Refusal(404, f"model: {name}"))
            else:
                self._json(200, model_info(model, name))
        elif path == "/_standin/ledger":
            self._json(200, {"calls": msgspec.to_builtins(self.server.service.calls())})
        elif path.startswith("/_standin/requests/"):
            body = self.server.service.body(int(path.rsplit("/", 1)[1]))
            self._bytes(404 if body is None else 200, body or b"{}")
        elif path == "/_standin/health":
            self._json(200, {"ok": True})
        else:
            self._error(Refusal(404, f"{path} is not served"))

    def do_DELETE(self) -> None:
        path = urlsplit(self.path).path
        if path == "/_standin/ledger":
            self.server.service.reset_ledger()
        elif path == "/_standin/script":
            self.server.service.clear_script()
        self._json(200, {})

    def _call(self, count: bool) -> None:
        started = time.monotonic()
        body = self._body()
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ").strip()
        betas = frozenset(
            name.strip()
            for header in self.headers.get_all("anthropic-beta") or []
            for name in header.split(",")
            if name.strip()
        )
        incoming = Incoming(count, self.headers.get("x-api-key") or bearer, betas, body or b"")
        service = self.server.service
        if body is None:
            too_large = Refusal(413, "Request exceeds the maximum allowed number of bytes.")
            outcome = service.refuse_unread(incoming, too_large)
        elif not self.headers.get("anthropic-version"):
            refusal = Refusal(400, "anthropic-version: header is required")
            outcome = service.refuse_unread(incoming, refusal)
        else:
            outcome = service.handle(incoming)
        ended = Sender(self, service.options, self.server.rates).send(outcome)
        service.settle(outcome.call, ended, time.monotonic() - started)

    def _body(self) -> bytes | None:
        """Reads the request's body; one above the limit is read to its end, let go, and gives None."""
        length = int(self.headers.get("content-length") or 0)
        if length <= MAX_BODY_BYTES:
            return self.rfile.read(length)
        left = min(length, _DRAIN_BYTES)
        while left > 0 and (chunk := self.rfile.read(min(left, _CHUNK_BYTES))):
            left -= len(chunk)
        self.close_connection = True
        return None

    def _queue(self, body: bytes) -> None:
        try:
            raw = json.loads(body)
            entries = msgspec.convert(raw if isinstance(raw, list) else [raw], tuple[Scripted, ...])
        except (ValueError, msgspec.ValidationError) as error:
            self._error(Refusal(400, f"no script: {error}"))
        else:
            self._json(200, {"queued": self.server.service.add_script(entries)})

    def _error(self, refusal: Refusal) -> None:
        self._json(refusal.status, error_body(refusal.type, refusal.message, refusal.error_code, "req_standin"))

    def _json(self, status: int, value: Json) -> None:
        self._bytes(status, json.dumps(value, ensure_ascii=False).encode())

    def _bytes(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
