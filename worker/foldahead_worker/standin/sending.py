"""Puts an outcome on the wire: at its pace, whole, or broken where the script says so."""

from __future__ import annotations

import json
import socket
import time
from http.server import BaseHTTPRequestHandler

from foldahead_worker.standin.fault import Json
from foldahead_worker.standin.judgement import Refusal
from foldahead_worker.standin.options import Options
from foldahead_worker.standin.ratelimit import RateWindow
from foldahead_worker.standin.script import Scripted
from foldahead_worker.standin.service import Outcome
from foldahead_worker.standin.sse import Event, error_body, error_event, stream_events


class Sender:
    """Sends one outcome over the connection of `handler`."""

    def __init__(self, handler: BaseHTTPRequestHandler, options: Options, rates: RateWindow) -> None:
        self._handler = handler
        self._options = options
        self._rates = rates

    def send(self, outcome: Outcome) -> str:
        """Sends it, and says how that ended: answered, refused, or broken."""
        scripted = outcome.scripted
        first_byte_s = scripted.first_byte_s
        time.sleep(self._options.first_byte_s if first_byte_s is None else first_byte_s)
        try:
            if isinstance(outcome.result, Refusal):
                self._refuse(outcome, outcome.result)
                return "refused"
            if outcome.call.streamed and outcome.call.kind != "count":
                return self._stream(outcome, outcome.result)
            return self._whole(outcome, outcome.result)
        except ConnectionError:
            self._handler.close_connection = True
            return "broken"

    def _start(self, outcome: Outcome, status: int, content_type: str) -> None:
        call = outcome.call
        self._handler.send_response(status)
        self._handler.send_header("content-type", content_type)
        self._handler.send_header("request-id", _request_id(outcome))
        prompt = call.input_tokens + call.cache_creation_input_tokens
        for name, value in self._rates.headers(prompt, call.output_tokens).items():
            self._handler.send_header(name, value)

    def _refuse(self, outcome: Outcome, refusal: Refusal) -> None:
        body = _encode(error_body(refusal.type, refusal.message, refusal.error_code, _request_id(outcome)))
        self._start(outcome, refusal.status, "application/json")
        if refusal.retry_after_s is not None:
            self._handler.send_header("retry-after", f"{refusal.retry_after_s:g}")
        if self._handler.close_connection:
            self._handler.send_header("connection", "close")
        self._handler.send_header("content-length", str(len(body)))
        self._handler.end_headers()
        self._handler.wfile.write(body)

    def _whole(self, outcome: Outcome, message: Json) -> str:
        self._pace(outcome.scripted, outcome.call.output_tokens)
        body = _encode(message)
        self._start(outcome, 200, "application/json")
        self._handler.send_header("content-length", str(len(body)))
        self._handler.end_headers()
        if outcome.scripted.break_after_events is not None:
            self._handler.wfile.write(body[: len(body) // 2])
            self._hang_up()
            return "broken"
        self._handler.wfile.write(body)
        return "answered"

    def _stream(self, outcome: Outcome, message: Json) -> str:
        scripted = outcome.scripted
        self._start(outcome, 200, "text/event-stream; charset=utf-8")
        self._handler.send_header("cache-control", "no-cache")
        self._handler.send_header("transfer-encoding", "chunked")
        self._handler.end_headers()
        for at, event in enumerate(stream_events(message)):
            if at == scripted.break_after_events:
                self._hang_up()
                return "broken"
            if at == scripted.error_after_events:
                kind = scripted.error_type or "overloaded_error"
                text = scripted.error_message or "Overloaded"
                self._chunk(error_event(kind, text, scripted.error_code, _request_id(outcome)))
                self._handler.wfile.write(b"0\r\n\r\n")
                return "broken"
            self._pace(scripted, event.tokens)
            self._chunk(event)
        self._handler.wfile.write(b"0\r\n\r\n")
        return "answered"

    def _pace(self, scripted: Scripted, tokens: int) -> None:
        per_token_s = self._options.per_token_s if scripted.per_token_s is None else scripted.per_token_s
        if per_token_s and tokens:
            time.sleep(per_token_s * tokens)

    def _chunk(self, event: Event) -> None:
        data = event.to_bytes()
        self._handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _hang_up(self) -> None:
        self._handler.wfile.flush()
        self._handler.close_connection = True
        self._handler.connection.shutdown(socket.SHUT_RDWR)


def _request_id(outcome: Outcome) -> str:
    return f"req_si{outcome.call.n:08d}"


def _encode(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
