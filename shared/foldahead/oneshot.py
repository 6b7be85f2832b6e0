"""One compaction here and now, with no services: what the command line's `compact` calls.

The second seed's contract: it always makes progress, says what it did, and never hands back a worse conversation.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from foldahead.asking import Asking, Failed, Summarize
from foldahead.core.conversation import Conversation, Moment
from foldahead.core.cut import Cut
from foldahead.core.decide import length_target_tokens
from foldahead.core.dialects import get_dialect
from foldahead.core.extract import extract
from foldahead.core.index import INDEX_VERSION
from foldahead.core.ledger import ledger_of
from foldahead.core.plan import Outcome, Plan, extract_budget
from foldahead.core.policy import Policy
from foldahead.core.prompt import PROMPT_VERSION
from foldahead.core.record import Record
from foldahead.core.redact import REDACTION_VERSION
from foldahead.core.repair import describe
from foldahead.core.request import SummaryRequest
from foldahead.core.summarise import ready_of
from foldahead.core.view import parse_place
from foldahead.core.weigh import Counter


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
    In a mode other than `on` nothing is made and nothing changes.
    Raises `InvalidHistory`, `InvalidPolicy`, `UnknownDialect`; never for what the summariser does.
    """
    policy = policy or Policy()
    conversation = Conversation(get_dialect(dialect), policy)
    conversation.model = model
    moment = Moment(now_ms=now_ms, forced=force, target_tokens=target_tokens, counter=counter)
    if policy.mode != "on":
        conversation.observe(messages)
        return _result(messages, conversation, Plan(reason=policy.mode), policy.mode, counter, fallback=False)
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
    reason = answer.reason if isinstance(answer, Failed) and plan.outcome == "unchanged" else plan.reason
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
) -> str | Failed:
    span = [conversation.dialect.read(messages[at], at) for at in range(request.start, request.end)]
    if summarize is None:
        cut = Cut(request.start, request.end)
        target = 4 * conversation.ledger.tokens[-1] if force else conversation.policy.target_tokens
        pinned = conversation.standing().pinned_tokens
        budget = extract_budget(conversation.ledger, cut, request.end, conversation.policy, target, 1.0, pinned)
        return extract(span, budget)
    asking = Asking(summarize=summarize, max_attempts=conversation.policy.max_attempts, cancelled=cancelled)
    return asking.summary_of(span, request)


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
