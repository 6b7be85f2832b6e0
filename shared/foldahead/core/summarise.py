"""From a span and a summariser's answer to a summary that may be swapped in. Pure; the call itself is the edge's."""

import hashlib
from collections.abc import Sequence

from foldahead.core.index import mechanical_index
from foldahead.core.messages import Message, Text
from foldahead.core.redact import redact
from foldahead.core.request import SummaryRequest
from foldahead.core.standing import Ready
from foldahead.core.tokens import estimate, estimate_text
from foldahead.core.verify import spoken
from foldahead.core.wrapper import wrap

INDEX_RATIO = 0.03
"""Part of the span that the mechanical index may take: 2 % of it held 94 % of what 29 real sessions needed, 5 % all."""
LEAST_INDEX_TOKENS = 60


def with_index(text: str, messages: Sequence[Message], parent: str = "") -> str:
    """A summariser's text, redacted, with the mechanical index of its span behind it.

    Where a `parent` was folded in, its references are carried over, behind those of the messages since.
    """
    budget = max(LEAST_INDEX_TOKENS, int(sum(map(estimate, messages)) * INDEX_RATIO))
    if parent:
        # Not as the user's: what a summary says is no longer anybody's own words.
        messages = (Message("assistant", (Text(parent),)), *messages)
        budget *= 2
    index = mechanical_index(messages, budget)
    said = redact(spoken(text))
    return f"{said}\n\n{index}" if index else said


def nonce_of(request: SummaryRequest) -> str:
    """The mark around a transcript: a hash that commits to all of it, so nobody who wrote any of it can
    have known it.
    """
    return hashlib.sha256(f"nonce:{request.cache_key}".encode()).hexdigest()[:20]


def ready_of(request: SummaryRequest, text: str, block: bytes = b"") -> Ready:
    """A finished summary as a session takes it."""
    return Ready(
        cache_key=request.cache_key,
        kind=request.kind,
        model=request.model,
        start=request.start,
        end=request.end,
        head_end=bytes.fromhex(request.head),
        text=text,
        block=block,
        summary_tokens=estimate_text(wrap(text, request.model, request.end)),
    )
