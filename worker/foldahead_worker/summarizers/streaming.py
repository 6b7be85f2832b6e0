"""One streamed request, read on a thread of its own: whoever waits for it notices deadline and silence all
the same.

A stream cannot be read with a short timeout and read on, so the thread that has the job never reads it: it
looks at this one a few times a second, and drops the connection when the work is to stop.
"""

import contextlib
import socket
import threading
from collections.abc import Mapping
from typing import Any

import anthropic
from msgspec import Struct

from foldahead.core.models import Model
from foldahead_worker.summarizers.api_errors import translated, was_never_sent
from foldahead_worker.summarizers.protocol import Cost, Limit, SummarizerError

_LIMITS = {
    "requests": ("requests",),
    "input": ("input-tokens", "tokens"),
    "output": ("output-tokens",),
}


class Reply(Struct, frozen=True, kw_only=True):
    """A whole answer."""

    text: str
    stop_reason: str
    cost: Cost
    block: dict[str, Any] | None = None
    """The compaction block, where the request asked for one."""


class OpenCall:
    """A request under way. `most` is what it can cost: it counts until the answer is whole."""

    def __init__(self, client: anthropic.Anthropic, request: Mapping[str, Any], model: Model, most: Cost) -> None:
        self._client = client
        self._request = request
        self._model = model
        self._most = most
        self._texts: list[str] = []
        self._block: dict[str, Any] | None = None
        self._stop_reason = ""
        self._called = False
        self._usage: Any = None
        self._output_tokens = 0
        self._compactions: list[Any] = []
        self._whole = False
        self._error: Exception | None = None
        self._response: Any = None
        self._abandoned = False
        self._done = threading.Event()
        self.limits: tuple[Limit, ...] = ()
        """As the response's headers said; empty until it began."""

    def start(self) -> "OpenCall":
        """Send it."""
        threading.Thread(target=self._run, name="foldahead-call", daemon=True).start()
        return self

    def wait(self, timeout_s: float) -> bool:
        """Whether it is over, after `timeout_s` at the latest."""
        return self._done.wait(timeout_s)

    @property
    def is_over(self) -> bool:
        return self._done.is_set()

    def reply(self) -> Reply:
        """The answer, once it is over. Raises `SummarizerError`."""
        if self._whole and self._error is None:
            stop_reason = self._stop_reason or ("tool_use" if self._called else "end_turn")
            return Reply(text="".join(self._texts), stop_reason=stop_reason, cost=self.cost, block=self._block)
        if self._error is not None:
            raise translated(self._error, self.cost)
        raise SummarizerError("the stream ended before the answer was whole", heals=True, cost=self.cost)

    @property
    def cost(self) -> Cost:
        """What it was billed, or may have been."""
        if self._usage is not None:
            if self._compactions and self._whole:
                return sum((cost_of(self._model, each, each.output_tokens) for each in self._compactions), Cost())
            if "compaction" in self._request:
                return self._most  # the totals leave a compaction out: what it was billed comes with its end
            output = self._output_tokens if self._whole else self._most.output_tokens
            return cost_of(self._model, self._usage, output)
        refused = isinstance(self._error, anthropic.APIStatusError) or was_never_sent(self._error)
        return Cost() if refused else self._most

    def abandon(self) -> None:
        """Stop reading and hang up, so that the provider stops writing."""
        self._abandoned = True
        if self._response is not None:
            _hang_up(self._response)

    def _run(self) -> None:
        try:
            with self._create() as stream:
                self._response = stream.response
                self.limits = limits_of(stream.response.headers)
                for event in stream:
                    if self._abandoned:
                        return
                    self._take(event)
        except Exception as error:  # noqa: BLE001 - of a thread: raised where the call is waited for, as one of ours
            self._error = error
        finally:
            self._done.set()

    def _create(self) -> Any:
        messages: Any = self._client.beta.messages if "betas" in self._request else self._client.messages
        return messages.create(**self._request, stream=True)

    def _take(self, event: Any) -> None:
        match event.type:
            case "message_start":
                self._usage = event.message.usage
            case "content_block_start" if event.content_block.type == "compaction":
                self._block = event.content_block.to_dict()
            case "content_block_delta" if event.delta.type == "compaction_delta":
                self._block = (self._block or {"type": "compaction"}) | _without_nulls(event.delta.to_dict(), "type")
            case "content_block_start":
                self._called = self._called or event.content_block.type.endswith("tool_use")
                self._texts.append(getattr(event.content_block, "text", ""))
            case "content_block_delta" if event.delta.type == "text_delta":
                self._texts.append(event.delta.text)
            case "message_delta":
                self._stop_reason = event.delta.stop_reason or ""
                self._output_tokens = event.usage.output_tokens
                iterations = getattr(event.usage, "iterations", None) or ()
                self._compactions = [each for each in iterations if each.type == "compaction"]
            case "message_stop":
                self._whole = True
            case _:
                pass


def _without_nulls(fields: Mapping[str, Any], *known: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None and name not in known}


def cost_of(model: Model, usage: Any, output_tokens: int) -> Cost:
    """What an answer cost, by the `usage` of its beginning and the tokens of its end."""
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    long = getattr(getattr(usage, "cache_creation", None), "ephemeral_1h_input_tokens", 0) or 0
    prompt = usage.input_tokens + read + written
    price = model.price_at(prompt)
    picodollars = 0
    if price is not None:
        picodollars = price.picodollars(
            input_tokens=usage.input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=read,
            cache_write_tokens=written - long,
            cache_write_1h_tokens=long,
        )
    return Cost(picodollars=picodollars, input_tokens=prompt, output_tokens=output_tokens)


def limits_of(headers: Mapping[str, str]) -> tuple[Limit, ...]:
    """The limits that a response's headers tell of (`anthropic-ratelimit-*`)."""
    found: list[Limit] = []
    for name, spellings in _LIMITS.items():
        for spelling in spellings:
            limit = headers.get(f"anthropic-ratelimit-{spelling}-limit", "")
            remaining = headers.get(f"anthropic-ratelimit-{spelling}-remaining", "")
            if limit.isdecimal() and remaining.isdecimal() and int(limit) > 0:
                found.append(Limit(name, int(limit), int(remaining)))
                break
    return tuple(found)


def _hang_up(response: Any) -> None:
    """Close the connection below whoever reads from it; `close` alone would not wake a blocked read."""
    stream = response.extensions.get("network_stream")
    wire = stream.get_extra_info("socket") if stream is not None else None
    if wire is not None:
        with contextlib.suppress(OSError):
            wire.shutdown(socket.SHUT_RDWR)
