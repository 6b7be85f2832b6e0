"""From a summariser to an answer that may be stored: verification, and the one retry (design section 6)."""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from foldahead.core.summarise import with_index
from foldahead.core.tokens import estimate_text
from foldahead.core.verify import Verdict, verify_text
from foldahead_worker.store.spend import Bill
from foldahead_worker.summarizers.protocol import (
    Answer,
    Check,
    Cost,
    Interrupted,
    Span,
    Summarizer,
    SummarizerError,
)

_TOO_LONG = ("not_smaller", "cut_off")


class Verified(Struct, frozen=True, kw_only=True):
    """An answer that may be stored."""

    text: str
    block: bytes
    cost: Cost


class Rejected(Struct, frozen=True, kw_only=True):
    """Two answers in a row that may not be stored, or one after which nothing was left. `reason` is the first one's."""

    reason: str
    cost: Cost


def bill_of(cost: Cost) -> Bill:
    """A cost as the store settles it."""
    return Bill(picodollars=cost.picodollars, input_tokens=cost.input_tokens, output_tokens=cost.output_tokens)


def summarise_verified(
    summarizer: Summarizer, span: Span, span_tokens: int, check: Check, may_retry: Callable[[Span], bool]
) -> Verified | Rejected:
    """An answer that passed verification, with the mechanical index where it is a model's text.

    One retry with a tighter instruction, where `may_retry` reserves what it can cost; after an answer that was too
    long it has to be shorter than that one. Errors tell the cost of both attempts.
    """
    first = _asked(summarizer, span, Cost(), check)
    verdict = verify_text(first.text, span_tokens, first.stop_reason)
    if verdict.ok:
        return _verified(summarizer, span, first, first.cost)
    if summarizer.kind == "extract":
        return Rejected(reason=verdict.reason, cost=first.cost)
    tighter = msgspec.structs.replace(span, tighter=True)
    if not may_retry(tighter):
        return Rejected(reason=verdict.reason, cost=first.cost)
    second = _asked(summarizer, tighter, first.cost, check)
    cost = first.cost + second.cost
    if _is_better(second, first, verdict, span_tokens):
        return _verified(summarizer, span, second, cost)
    return Rejected(reason=verdict.reason, cost=cost)


def _asked(summarizer: Summarizer, span: Span, spent: Cost, check: Check) -> Answer:
    try:
        return summarizer.summarise(span, check)
    except (SummarizerError, Interrupted) as error:
        error.cost = spent + error.cost
        raise


def _is_better(second: Answer, first: Answer, verdict: Verdict, span_tokens: int) -> bool:
    if not verify_text(second.text, span_tokens, second.stop_reason).ok:
        return False
    return verdict.reason not in _TOO_LONG or estimate_text(second.text) < estimate_text(first.text)


def _verified(summarizer: Summarizer, span: Span, answer: Answer, cost: Cost) -> Verified:
    text = answer.text
    if summarizer.kind == "text":
        text = with_index(text, span.messages, span.parent_text)
    return Verified(text=text, block=answer.block, cost=cost)
