"""One compaction here and now, with no services: what the command line's `compact` calls.

The second seed's contract: it always makes progress, says what it did, and never hands back a worse conversation.
"""

import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from foldahead.core.conversation import Conversation, Moment
from foldahead.core.cut import Cut
from foldahead.core.decide import length_target_tokens
from foldahead.core.dialects import get_dialect
from foldahead.core.extract import extract
from foldahead.core.index import INDEX_VERSION
from foldahead.core.ledger import ledger_of
from foldahead.core.messages import Message
from foldahead.core.plan import Outcome, Plan, extract_budget
from foldahead.core.policy import Policy
from foldahead.core.prompt import PROMPT_VERSION, build_prompt
from foldahead.core.record import Record
from foldahead.core.redact import REDACTION_VERSION
from foldahead.core.repair import describe
from foldahead.core.request import SummaryRequest
from foldahead.core.summarise import nonce_of, ready_of, with_index
from foldahead.core.tokens import estimate, estimate_text
from foldahead.core.verify import verify_text
from foldahead.core.view import parse_place
from foldahead.core.weigh import Counter

Summarize = Callable[[str], str]
"""Takes the whole prompt, gives the summary."""
_NOT_HEALING = frozenset({400, 401, 402, 403, 404, 413, 422})
"""Statuses that a retry does not heal (design section 6)."""
_FIRST_WAIT_S = 1.0
_CANCEL_CHECK_S = 0.05


class Elision(Struct, frozen=True):
    """One stub: `index` in the input list and the text that took the result's place."""

    index: int
    stub: str


class Compaction(Struct, frozen=True, kw_only=True):
    """What one compaction did. Tokens are those of the whole list, estimated or by the caller's counter."""

    outcome: Outcome
    reason: str
    messages: list[Any]
    records: tuple[Record, ...]
    summary: str
    """The whole content that was put in; empty when nothing was."""
    tokens_before: int
    tokens_after: int
    dropped: int
    """Messages that the summary or the marker stands for."""
    cut_index: int
    """Index into the input at which they end; -1 when there are none."""
    fallback: bool
    """The summariser did not deliver: this is `extract` or a truncation at the hard cap."""
    exhausted: bool
    """Even this does not fit."""
    elisions: tuple[Elision, ...]
    repairs: tuple[str, ...]
    cache_key: str | None

    @property
    def elided(self) -> tuple[int, ...]:
        """Indices of the messages with a stub in them."""
        return tuple(sorted({elision.index for elision in self.elisions}))


class _Failed(Struct, frozen=True):
    reason: str


def compact(
    messages: list[Any],
    policy: Policy | None = None,
    dialect: str = "anthropic",
    summarize: Summarize | None = None,
    cancelled: Callable[[], bool] | None = None,
    *,
    force: bool = False,
    model: str = "",
    target_tokens: int | None = None,
    counter: Counter | None = None,
    now_ms: int = 0,
) -> Compaction:
    """Compact a list of messages once. The list is not changed.

    `summarize` gets the whole prompt and gives the text; without one the summary is made by rules. `force` waives
    threshold, start, minimum span and target: only smaller it must be. `model` is the agent's own (thinking, window).
    Raises `InvalidHistory`, `InvalidPolicy`, `UnknownDialect`; never for what the summariser does.
    """
    policy = policy or Policy()
    conversation = Conversation(get_dialect(dialect), policy)
    conversation.model = model
    moment = Moment(now_ms=now_ms, forced=force, target_tokens=target_tokens, counter=counter)
    first = _look(messages, conversation, moment)
    if first.outcome != "unchanged" or first.reason != "not_ready":
        return _result(messages, conversation, first, first.reason, counter, fallback=False)
    request = _request(conversation, policy, summarize is not None)
    answer = _summary(messages, conversation, request, summarize, cancelled or (lambda: False), force)
    if isinstance(answer, str):
        conversation.add_ready(ready_of(request, answer))
    conversation.view(messages, moment)
    plan = conversation.plan
    fallback = plan.summary is None and plan.outcome in ("swapped", "truncated")
    reason = answer.reason if isinstance(answer, _Failed) and plan.outcome == "unchanged" else plan.reason
    return _result(messages, conversation, plan, reason, counter, fallback=fallback and summarize is not None)


def _look(messages: list[Any], conversation: Conversation, moment: Moment) -> Plan:
    """The plan with no summary and no way down: says whether one is to be made."""
    conversation.observe(messages)
    return conversation.preview(messages, moment)


def _request(conversation: Conversation, policy: Policy, by_model: bool) -> SummaryRequest:
    cut, ledger = conversation.cut(), conversation.ledger
    return SummaryRequest(
        workspace="",
        dialect=conversation.dialect.canonical,
        kind="text" if by_model else "extract",
        start=cut.start,
        message_count=cut.end - cut.start,
        head=ledger.heads[cut.end].hex(),
        model=policy.model if by_model else "extract",
        prompt_version=PROMPT_VERSION,
        max_tokens=policy.summary_max_tokens,
        length_target_tokens=length_target_tokens(ledger.span_tokens(cut.start, cut.end), policy),
        tool_result_cap=policy.tool_result_cap,
        instructions=policy.instructions,
        redaction_version=REDACTION_VERSION,
        index_version=INDEX_VERSION,
    )


def _summary(
    messages: list[Any],
    conversation: Conversation,
    request: SummaryRequest,
    summarize: Summarize | None,
    cancelled: Callable[[], bool],
    force: bool,
) -> str | _Failed:
    span = [conversation.dialect.read(messages[at], at) for at in range(request.start, request.end)]
    if summarize is None:
        cut = Cut(request.start, request.end)
        target = 4 * conversation.ledger.tokens[-1] if force else conversation.policy.target_tokens
        budget = extract_budget(conversation.ledger, cut, request.end, conversation.policy, target, 1.0)
        return extract(span, budget)
    return _asked(span, request, summarize, cancelled, conversation.policy.max_attempts)


def _asked(
    span: list[Message],
    request: SummaryRequest,
    summarize: Summarize,
    cancelled: Callable[[], bool],
    max_attempts: int,
) -> str | _Failed:
    """The summariser's text, verified; one retry with a tighter instruction, taken only if it is smaller."""
    span_tokens = sum(map(estimate, span))
    first_tokens = None
    reason = ""
    for tighter in (False, True):
        prompt = build_prompt(
            span,
            nonce=nonce_of(request),
            length_target_tokens=request.length_target_tokens,
            tool_result_cap=request.tool_result_cap,
            instructions=request.instructions,
            tighter=tighter,
        )
        answer = _called(summarize, prompt.text, cancelled, max_attempts)
        if isinstance(answer, _Failed):
            return answer
        verdict = verify_text(answer, span_tokens)
        tokens = estimate_text(answer)
        if verdict.ok and (first_tokens is None or tokens < first_tokens):
            return with_index(answer, span)
        reason = reason or verdict.reason or "not_smaller"
        first_tokens = tokens
    return _Failed(reason)


def _called(
    summarize: Summarize, prompt: str, cancelled: Callable[[], bool], max_attempts: int
) -> str | _Failed:
    wait_s = _FIRST_WAIT_S
    for attempt in range(1, max_attempts + 1):
        if cancelled():
            return _Failed("cancelled")
        try:
            return summarize(prompt)
        except Exception as error:  # the summariser is the caller's: whatever it raises, the conversation goes on
            if getattr(error, "status_code", None) in _NOT_HEALING or attempt == max_attempts:
                return _Failed(f"adapter_error: {type(error).__name__}")
        if not _slept(wait_s, cancelled):
            return _Failed("cancelled")
        wait_s *= 2
    return _Failed("adapter_error")


def _slept(seconds: float, cancelled: Callable[[], bool]) -> bool:
    """Sleep; False as soon as it was cancelled."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if cancelled():
            return False
        time.sleep(_CANCEL_CHECK_S)
    return True


def _result(
    messages: list[Any],
    conversation: Conversation,
    plan: Plan,
    reason: str,
    counter: Counter | None,
    *,
    fallback: bool,
) -> Compaction:
    view, records = conversation.shown(messages), tuple(conversation.records)
    span = next((record for record in plan.records if record.stands_for_span), None)
    stubs = [record.stubs or {} for record in records]
    return Compaction(
        outcome=plan.outcome,
        reason=reason if plan.outcome == "unchanged" else "",
        messages=view,
        records=records,
        summary=_text_of(conversation, span),
        tokens_before=_counted(messages, conversation, counter),
        tokens_after=_counted(view, conversation, counter),
        dropped=span.end - span.start if span else 0,
        cut_index=span.end if span else -1,
        fallback=fallback,
        exhausted=plan.exhausted,
        elisions=tuple(Elision(parse_place(place)[0], stub) for each in stubs for place, stub in each.items()),
        repairs=tuple(map(describe, conversation.ledger.faults)),
        cache_key=span.cache_key if span else None,
    )


def _counted(messages: list[Any], conversation: Conversation, counter: Counter | None) -> int:
    return counter(messages) if counter else ledger_of(messages, conversation.dialect).tokens[-1]


def _text_of(conversation: Conversation, span: Record | None) -> str:
    if span is None:
        return ""
    read = conversation.dialect.read(span.message, span.start)
    return "".join(getattr(block, "text", "") for block in read.blocks)
