"""`native`: the Claude API writes the summary itself and signs it (on-demand compaction; facts.md).

One request with the session's own model, system prompt, tools and messages. The block that comes back is kept byte for
byte. What the API would refuse is looked for before anything is paid.
"""

from typing import Any

import msgspec

from foldahead.core.dialects import get_dialect
from foldahead.core.envelope import COMPACT_BETA, Envelope
from foldahead.core.ledger import Ledger, ledger_of
from foldahead.core.messages import Call, Result
from foldahead.core.prompt import compaction_instructions
from foldahead.core.repair import repairs
from foldahead.core.request import SummaryKind
from foldahead.core.tokens import estimate_text
from foldahead.core.view import Active, active_records, build_view
from foldahead_worker.summarizers.asking import Asking, ModelSummarizer, Room, known_by, most_of, priced
from foldahead_worker.summarizers.protocol import (
    Answer,
    Check,
    Forecast,
    Span,
    SummarizerError,
)

MOST_REQUEST_BYTES = 31 * 1024 * 1024
"""The API refuses requests of 32 MB."""
MOST_INSTRUCTIONS_CHARS = 16_384
MOST_BLOCK_BYTES = 192 * 1024
"""It stands in a record, and Redis takes none of more than 256 KiB."""
_CACHEABLE = ("text", "image", "document", "tool_use", "tool_result")
LEAST_ANSWER_TOKENS = 4_096
"""The server's own prompt asks for no length: a block that is cut off was paid for in vain."""


class NativeSummarizer(ModelSummarizer):
    """Summaries by the session's own model, for the workspace that the account pays for."""

    kind: SummaryKind = "native"

    def forecast(self, span: Span) -> Forecast:
        asking = self._asking(span)
        return Forecast(
            picodollars=asking.most.picodollars,
            calls=1,
            input_tokens=asking.prompt_tokens,
            output_tokens=span.request.length_target_tokens,
        )

    def summarise(self, span: Span, check: Check) -> Answer:
        asking = self._asking(span)
        reply, cost = self._asked(self._room(span), check, lambda asker: asker.send([asking])[0])
        block = {name: value for name, value in (reply.block or {}).items() if value is not None}
        text = str(block.get("content") or "")
        stop_reason = "end_turn" if reply.stop_reason == "compaction" else reply.stop_reason
        encoded = msgspec.json.encode(block)
        if len(encoded) > MOST_BLOCK_BYTES:
            raise SummarizerError(
                f"the block has {len(encoded)} bytes of at most {MOST_BLOCK_BYTES}",
                code="block_too_large",
                cost=cost,
            )
        return Answer(text=text, stop_reason=stop_reason, block=encoded, cost=cost)

    def _room(self, span: Span) -> Room:
        request = span.request
        model = priced(request.model, self._models)
        if not model.compacts:
            raise SummarizerError(f"{request.model} writes no compaction blocks", code="compaction_not_supported")
        budget = span.envelope.thinking.get("budget_tokens") if span.envelope and span.envelope.thinking else 0
        answer = max(LEAST_ANSWER_TOKENS, request.max_tokens) + (budget if isinstance(budget, int) else 0)
        max_tokens = min(model.output_tokens, answer)
        transcript = model.window_tokens - max_tokens
        return Room(name=known_by(request.model), model=model, transcript_tokens=transcript, max_tokens=max_tokens)

    def _asking(self, span: Span) -> Asking:
        """The one request, and what it can cost. Raises `SummarizerError` for what the API would refuse."""
        room, envelope = self._room(span), span.envelope or Envelope()
        body = body_of(span, room, envelope, sendable(span))
        size = len(msgspec.json.encode(body))
        ledger = ledger_of(body["messages"], get_dialect(span.request.dialect))
        beside = envelope.encoded().decode("utf-8", "replace") + body["compaction"].get("instructions", "")
        tokens = ledger.tokens[-1] + estimate_text(beside)
        if fault := _fault_of(body, size, tokens, room) or _fault_in(ledger, body):
            raise SummarizerError(fault, code="not_compactable", too_large=size > MOST_REQUEST_BYTES)
        return Asking(body=body, most=most_of(room, tokens, writes_cache=True), prompt_tokens=tokens)


def sendable(span: Span) -> list[Any]:
    """The messages of a compaction request: the parent's block, and what came since, as the provider takes it.

    Just as they were sent where the request keeps thinking; else without any, which is bound to a conversation that is
    not this one, and mended like the agent's view.
    """
    request, dialect = span.request, get_dialect(span.request.dialect)
    thinks_from = request.bare_until if request.keeps_thinking else request.end
    bare = max(0, thinks_from - request.first)
    messages = [*map(dialect.without_thinking, span.originals[:bare]), *span.originals[bare:]]
    messages = [message for message in messages if message is not None]
    ledger = ledger_of(messages, dialect)
    mends = repairs(messages, ledger, Active(), 0)
    if mends:
        messages = build_view(messages, active_records(mends, ledger), dialect)
    if span.parent_block:
        block = msgspec.json.decode(span.parent_block)
        messages = [{"role": "assistant", "content": [block]}, *messages]
    return messages


def body_of(span: Span, room: Room, envelope: Envelope, messages: list[Any]) -> dict[str, Any]:
    """The keyword arguments of a compaction request."""
    compaction: dict[str, Any] = {"type": "summarize"}
    request = span.request
    instructions = compaction_instructions(request.length_target_tokens, request.instructions, span.tighter)
    if instructions:
        compaction["instructions"] = instructions
    body: dict[str, Any] = {
        "model": room.name,
        "max_tokens": room.max_tokens,
        "messages": _with_breakpoint(messages) if messages else messages,
        "betas": list(dict.fromkeys([*envelope.betas, COMPACT_BETA])),
        "compaction": compaction,
    }
    given = {
        "system": envelope.system,
        "tools": envelope.tools,
        "thinking": _thinking(envelope, request.keeps_thinking and not request.bare_until),
    }
    body |= {name: value for name, value in given.items() if value is not None}
    if envelope.effort is not None:
        body["output_config"] = {"effort": envelope.effort}
    return body


def _thinking(envelope: Envelope, keeps_thinking: bool) -> Any:
    """The session's own setting. Where thinking was taken out of the messages, none that wants a tool turn to begin
    with it."""
    kind = envelope.thinking.get("type") if envelope.thinking else None
    return envelope.thinking if keeps_thinking or kind != "enabled" else None


def _with_breakpoint(messages: list[Any]) -> list[Any]:
    """The messages with a cache breakpoint at their end: the session's own requests had the same beginning, so that
    nearly all of it is read from the provider's cache."""
    *before, last = messages
    content = last["content"]
    blocks: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    if not blocks or blocks[-1].get("type") not in _CACHEABLE:
        return messages
    return [*before, {**last, "content": [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]}]


def _fault_of(body: dict[str, Any], size: int, tokens: int, room: Room) -> str:
    """Why the API would refuse the request; empty when nothing is known against it."""
    if size > MOST_REQUEST_BYTES:
        return f"the request has {size} bytes of at most {MOST_REQUEST_BYTES}"
    if tokens > room.transcript_tokens:
        return f"the span has about {tokens} tokens of the window's {room.transcript_tokens}"
    if len(body["compaction"].get("instructions", "")) > MOST_INSTRUCTIONS_CHARS:
        return f"the instructions have more than {MOST_INSTRUCTIONS_CHARS} characters"
    return ""


def _fault_in(ledger: Ledger, body: dict[str, Any]) -> str:
    if not len(ledger):
        return "there is nothing to summarise"
    if ledger.open_calls and ledger.traits[-1].role == "assistant":
        return "the span ends on an open call"
    if ledger.faults:
        return f"messages[{ledger.faults[0].index}]: {ledger.faults[0].kind}"
    read = [ledger.dialect.read(message, at) for at, message in enumerate(body["messages"])]
    calls = any(isinstance(block, Call | Result) for message in read for block in message.blocks)
    return "calls without tools" if calls and "tools" not in body else ""
