"""The stand-in without its HTTP: a request comes in, is judged, answered, billed and entered in the books."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import msgspec

from foldahead_worker.standin.answers import Answer, compaction_answer, last_user_text, message_answer
from foldahead_worker.standin.billing import PromptCache, Usage
from foldahead_worker.standin.compaction_rules import COMPACT_BETA
from foldahead_worker.standin.encoding import encoding_faults
from foldahead_worker.standin.fault import Json, as_list
from foldahead_worker.standin.judgement import (
    Refusal,
    Understood,
    find_faults,
    parse_body,
    refusal_for,
    understand,
)
from foldahead_worker.standin.ledger import Call, Ledger
from foldahead_worker.standin.options import Options
from foldahead_worker.standin.prices import bill
from foldahead_worker.standin.script import Kind, Script, Scripted
from foldahead_worker.standin.seal import digest
from foldahead_worker.standin.thinking_rules import BINDING_BETA

_PLAIN: Final = Scripted()
OWN_ANSWER: Final = "standin_answer"
"""A field of a request that no other API knows: the scripted answer to this request alone, where the script has
none. It is taken off before the request is judged. Sessions that run side by side need no common queue so.
"""


class Incoming(msgspec.Struct, frozen=True):
    """A request as HTTP delivered it."""

    count: bool
    api_key: str
    betas: frozenset[str]
    body: bytes


class Outcome(msgspec.Struct, frozen=True):
    """What to send: an error, or a message, by the timing and the breaks of `scripted`."""

    call: Call
    result: Refusal | Json
    scripted: Scripted = _PLAIN


class Service:
    """All of the stand-in's state, behind one lock that no answer waits under.

    `clock` measures the life of cache entries, `wall` dates the books; both in seconds.
    """

    def __init__(self, options: Options, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self.options = options
        self._wall = wall
        self._lock = threading.Lock()
        self._script = Script(options.script)
        self._cache = PromptCache(clock)
        self._ledger = Ledger()

    def handle(self, incoming: Incoming) -> Outcome:
        """Answers one request, as far as the books: what it was, what it costs."""
        with self._lock:
            kind = "count" if incoming.count else "message"
            call = self._ledger.open(self._wall(), kind, incoming.api_key, incoming.body)
        known = self.options.api_keys
        if not incoming.api_key or (known is not None and incoming.api_key not in known):
            return self._refuse(call, Refusal(401, "invalid x-api-key"))
        request = parse_body(incoming.body)
        if isinstance(request, Refusal):
            return self._refuse(call, request)
        return self._answer(call, request, incoming)

    def refuse_unread(self, incoming: Incoming, refusal: Refusal) -> Outcome:
        """Enters a request that is refused by its headers or its size alone."""
        with self._lock:
            kind = "count" if incoming.count else "message"
            call = self._ledger.open(self._wall(), kind, incoming.api_key, incoming.body)
        return self._refuse(call, refusal)

    def settle(self, call: Call, outcome: str, seconds: float) -> None:
        """Enters how the sending of an answer ended."""
        with self._lock:
            self._ledger.write(msgspec.structs.replace(call, outcome=outcome, seconds=round(seconds, 4)))

    def _answer(self, call: Call, request: Json, incoming: Incoming) -> Outcome:
        try:
            own = msgspec.convert(request.pop(OWN_ANSWER, None), Scripted | None)
        except msgspec.ValidationError as error:
            return self._refuse(call, Refusal(400, f"{OWN_ANSWER}: {error}"))
        kind: Kind = "compaction" if request.get("compaction") is not None else "message"
        kind = "count" if incoming.count else kind
        found = find_faults(request, kind, incoming.betas, self.options)
        understood = refusal_for(found[0]) if found else understand(request, incoming.betas, self.options)
        refused = understood if isinstance(understood, Refusal) else None
        said = tuple(str(fault) for fault in found) or ((refused.message,) if refused else ())
        call = msgspec.structs.replace(
            call,
            kind=kind,
            model=str(request.get("model")),
            streamed=request.get("stream") is True,
            messages=len(as_list(request.get("messages")) or []),
            request_digest="" if encoding_faults(request) else digest(request),
            faults=said,
        )
        with self._lock:
            user_text = last_user_text(request)
            scripted = self._script.take(kind, call.model, user_text, call.api_key, refused is not None)
        scripted = scripted or own or _PLAIN
        if scripted.status is not None:
            return self._refuse(call, _scripted_refusal(scripted), scripted)
        if isinstance(understood, Refusal):
            return self._refuse(call, understood)
        if kind == "count":
            tokens = understood.steps[-1].tokens if understood.steps else 0
            return self._enter(call, {"input_tokens": tokens}, scripted, Usage(input_tokens=tokens))
        return self._speak(call, request, understood, scripted, incoming)

    def _speak(
        self, call: Call, request: Json, understood: Understood, scripted: Scripted, incoming: Incoming
    ) -> Outcome:
        speak = compaction_answer if call.kind == "compaction" else message_answer
        model, summary_tokens = understood.model, self.options.summary_tokens
        answer = speak(scripted, request, understood.prefix, model, summary_tokens)
        with self._lock:
            prompt = self._cache.bill(incoming.api_key, model, list(understood.steps))
        usage = msgspec.structs.replace(prompt, output_tokens=answer.output_tokens)
        message = _message(call, answer, usage, incoming.betas)
        if BINDING_BETA in incoming.betas:
            message["input_transformations"] = msgspec.to_builtins(understood.transformations)
        call = msgspec.structs.replace(call, stop_reason=answer.stop_reason, picodollars=bill(model, usage))
        return self._enter(call, message, scripted, usage)

    def _enter(self, call: Call, message: Json, scripted: Scripted, usage: Usage) -> Outcome:
        call = msgspec.structs.replace(
            call,
            status=200,
            input_tokens=usage.input_tokens,
            cache_creation_input_tokens=usage.cache_creation_input_tokens,
            cache_read_input_tokens=usage.cache_read_input_tokens,
            output_tokens=usage.output_tokens,
        )
        with self._lock:
            self._ledger.write(call)
        return Outcome(call, message, scripted)

    def _refuse(self, call: Call, refusal: Refusal, scripted: Scripted = _PLAIN) -> Outcome:
        call = msgspec.structs.replace(
            call,
            status=refusal.status,
            outcome="refused",
            error_type=refusal.type,
            error_code=refusal.error_code,
            error_message=refusal.message,
        )
        with self._lock:
            self._ledger.write(call)
        return Outcome(call, refusal, scripted)

    def add_script(self, entries: tuple[Scripted, ...]) -> int:
        """Queues scripted answers and says how many now wait."""
        with self._lock:
            self._script.add(entries)
            return len(self._script)

    def clear_script(self) -> None:
        """Empties the queue of scripted answers."""
        with self._lock:
            self._script.clear()

    def calls(self) -> list[Call]:
        """Gives the books."""
        with self._lock:
            return self._ledger.calls()

    def body(self, n: int) -> bytes | None:
        """Gives the body of a recent call."""
        with self._lock:
            return self._ledger.body(n)

    def reset_ledger(self) -> None:
        """Empties the books."""
        with self._lock:
            self._ledger.reset()

    def reset(self) -> None:
        """Empties books and queue, and lets the prompt cache expire."""
        with self._lock:
            self._ledger.reset()
            self._script.clear()
            self._cache.clear()


def _scripted_refusal(scripted: Scripted) -> Refusal:
    status = scripted.status or 500
    message = scripted.error_message or f"scripted error {status}"
    return Refusal(status, message, scripted.error_code, scripted.error_type, scripted.retry_after_s)


def _message(call: Call, answer: Answer, usage: Usage, betas: frozenset[str]) -> Json:
    """Makes the message object of a response; a compaction's tokens stand in `iterations` alone."""
    wire = usage.to_wire()
    if call.kind == "compaction":
        wire = Usage().to_wire() | {"iterations": [{"type": "compaction", **usage.to_wire()}]}
    elif COMPACT_BETA in betas:
        wire["iterations"] = [{"type": "message", **usage.to_wire(), "model": call.model}]
    return {
        "id": f"msg_si{call.n:06d}{call.request_digest[:12]}",
        "type": "message",
        "role": "assistant",
        "model": call.model,
        "content": list(answer.content),
        "stop_reason": answer.stop_reason,
        "stop_sequence": None,
        "stop_details": answer.stop_details,
        "container": None,
        "context_management": None,
        "usage": wire | {"service_tier": "standard"},
    }
