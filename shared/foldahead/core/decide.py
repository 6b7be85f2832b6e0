"""When a summary is made: what a watcher does with an armed session. Pure; forecasts in seconds from now."""

from typing import Literal

from msgspec import Struct

from foldahead.core.cut import Cut
from foldahead.core.index import INDEX_VERSION
from foldahead.core.policy import Policy
from foldahead.core.redact import REDACTION_VERSION
from foldahead.core.request import SummaryKind, SummaryRequest
from foldahead.core.standing import Offer, Standing
from foldahead.core.worth import Worth, worth_of

STALLED_AFTER = 2
"""Compactions in a row without effect after which a session is left alone until it has really grown."""
EXPECTED_SUMMARY_RATIO = 0.25
"""Of its span; summaries of short spans are longer in proportion, and an index comes with each."""
LEAST_SUMMARY_TOKENS = 300
INSTANT_START_RATIO = 0.8
"""What is there at once is made late, and covers more."""
INSTANT_S = 2.0
LATEST_LOOK_S = 30.0
"""A session that must wait is looked at again after this long at the latest."""
FORECAST_MARGIN = 1.25


class Start(Struct, frozen=True, kw_only=True):
    """Make a summary: of what, how urgent, and by when it is needed."""

    request: SummaryRequest
    urgency: Literal["ahead", "forced"]
    needed_in_s: float


class Wait(Struct, frozen=True, kw_only=True):
    """Look again later."""

    seconds: float
    reason: str


class Decline(Struct, frozen=True, kw_only=True):
    """Nothing to do until the session publishes again."""

    reason: str


Decision = Start | Wait | Decline


class Means(Struct, frozen=True, kw_only=True):
    """What the servers have to make summaries with. `model` is empty for `extract`, which nobody pays for."""

    kind: SummaryKind
    model: str
    prompt_version: str
    summary_s: float
    """99.5th percentile of the time that a summary takes."""

    @property
    def instant(self) -> bool:
        """Whether a summary takes less time than a turn: no forecast is needed."""
        return self.summary_s < INSTANT_S


def wanted_in_s(standing: Standing, summary_s: float) -> float | None:
    """Seconds until work on a session must start at the latest; None below its start. Never negative."""
    policy = standing.policy
    if policy.mode == "off" or standing.offer is None:
        return None
    if standing.forced:
        return 0.0
    if standing.pending_tokens < policy.start_ratio * policy.threshold:
        return None
    return max(0.0, seconds_to_threshold(standing) - summary_s * FORECAST_MARGIN)


def seconds_to_threshold(standing: Standing) -> float:
    """Forecast of the time until pending tokens reach the threshold; 0 when nothing is known of the pace."""
    missing = standing.policy.threshold - standing.pending_tokens
    if missing <= 0 or standing.growth_tokens <= 0 or standing.interval_s <= 0:
        return 0.0
    return missing / standing.growth_tokens * standing.interval_s


def decide(standing: Standing, workspace: str, means: Means) -> Decision:
    """Whether to start a summary of what a session offers now."""
    policy, offer = standing.policy, standing.offer
    if offer is None:
        return Decline(reason=standing.no_offer_reason or "nothing_to_compact")
    latest = wanted_in_s(standing, means.summary_s)
    if latest is None:
        return Decline(reason="below_start")
    if reason := not_worth_it(standing, offer, means):
        return Decline(reason=reason)
    if reason := too_early(standing, offer, means):
        return Decline(reason=reason)
    needed = 0.0 if standing.forced else seconds_to_threshold(standing)
    if not means.instant and latest > _one_turn_s(standing):
        return Wait(seconds=min(LATEST_LOOK_S, latest - _one_turn_s(standing)), reason="early")
    request = request_for(standing, offer, workspace, policy, means)
    return Start(request=request, urgency="forced" if standing.forced else "ahead", needed_in_s=needed)


def _one_turn_s(standing: Standing) -> float:
    """A later start covers more; one at the very deadline would be a turn too late."""
    return max(1.0, standing.interval_s)


def not_worth_it(standing: Standing, offer: Offer, means: Means) -> str:
    """Why a summary of the offer would be no help; empty when it would. The hard cap asks for size only."""
    policy = standing.policy
    shown = standing.shown
    if shown is not None and offer.end <= shown.end:
        return "nothing_to_compact"
    if standing.stalled >= STALLED_AFTER and not _has_grown(standing):
        return f"no effect {standing.stalled} times: waits until the session has grown"
    if standing.at_hard_cap:
        return ""
    gained = offer.span_tokens if shown is None else standing.pending_tokens - shown.summary_tokens
    gained -= standing.pinned_tokens
    if gained < policy.min_span_tokens:
        return f"span too small: {gained} of at least {policy.min_span_tokens} tokens"
    summary = expected_summary_tokens(offer.span_tokens, policy)
    left = summary + standing.pinned_tokens
    most = policy.threshold if standing.degraded else policy.target_tokens
    if left > most:
        return (
            f"would not get under its target: {left} tokens would stay ({standing.pinned_tokens} pinned), target {most}"
        )
    worth = _worth(standing, gained, summary, means)
    return "" if worth.pays or standing.degraded else f"not worth it: {worth.describe()}"


def too_early(standing: Standing, offer: Offer, means: Means) -> str:
    """Why a summary made now would miss its target by the time it is swapped in; empty when it would not.

    Whatever is added until the threshold stands behind the summary. The next publish looks again. By tokens alone:
    the same history is decided alike in a quick process and in a slow one.
    """
    policy = standing.policy
    if standing.forced or standing.pending_tokens >= policy.threshold:
        return ""
    if means.instant and standing.pending_tokens < INSTANT_START_RATIO * policy.threshold:
        return "early"
    summary = expected_summary_tokens(offer.span_tokens, policy)
    at_threshold = summary + standing.pinned_tokens + policy.threshold - standing.pending_tokens
    return "early" if at_threshold > policy.target_tokens else ""


def _has_grown(standing: Standing) -> bool:
    shown_end_tokens = standing.shown.summary_tokens if standing.shown else 0
    return standing.pending_tokens - shown_end_tokens > standing.policy.threshold * (1 + standing.stalled / 2)


def _worth(standing: Standing, gained: int, summary: int, means: Means) -> Worth:
    """Judged as it will be at the threshold, when the swap is made: more tokens to save, more turns gone by."""
    ahead = max(1.0, standing.policy.threshold / max(1, standing.pending_tokens))
    return worth_of(
        span_tokens=int(gained * ahead),
        summary_tokens=summary,
        tail_tokens=standing.tail_tokens,
        turns=int(standing.turns * ahead),
        agent_model=standing.model,
        summary_model=means.model,
        cached=means.kind == "native",
    )


def expected_summary_tokens(span_tokens: int, policy: Policy) -> int:
    """How long a summary of a span will be, index included."""
    most = min(policy.summary_max_tokens, policy.target_tokens // 2)
    return max(LEAST_SUMMARY_TOKENS, min(most, int(span_tokens * EXPECTED_SUMMARY_RATIO)))


def length_target_tokens(span_estimate_tokens: int, policy: Policy) -> int:
    """The length that a summariser is asked for. From the estimate, in steps, so that forks ask for the same."""
    wanted = min(policy.summary_max_tokens, policy.target_tokens // 2, span_estimate_tokens // 4)
    return max(LEAST_SUMMARY_TOKENS, wanted // 100 * 100)


def request_for(standing: Standing, offer: Offer, workspace: str, policy: Policy, means: Means) -> SummaryRequest:
    """The request for what a session offers, folding in the summary it has; `extract` goes back to the originals."""
    native = means.kind == "native"
    shown = standing.shown if policy.resummarise or native else None
    folds = shown is not None and shown.cache_key != "" and shown.end < offer.end and means.kind != "extract"
    # A block goes on from a block: a text of ours is nothing that the session's own turns were bound to.
    folds = folds and (not native or (shown is not None and shown.kind == "native"))
    return SummaryRequest(
        workspace=workspace,
        dialect=standing.dialect,
        kind=means.kind,
        start=offer.start,
        message_count=offer.end - offer.start,
        head=offer.head_end.hex(),
        model=means.model or "extract",
        prompt_version=means.prompt_version,
        max_tokens=policy.summary_max_tokens,
        length_target_tokens=length_target_tokens(offer.span_estimate_tokens, policy),
        tool_result_cap=policy.tool_result_cap,
        instructions=policy.instructions,
        redaction_version=REDACTION_VERSION,
        index_version=INDEX_VERSION,
        parent=shown.cache_key if folds and shown else "",
        parent_end=shown.end if folds and shown else 0,
        envelope_digest=standing.envelope if native else "",
        keeps_thinking=native and standing.sent_as_is,
        bare_until=min(standing.bare_until, offer.end) if native and standing.sent_as_is else 0,
    )


def offer_of(ledger_heads: list[bytes], ledger_tokens: list[int], cut: Cut, slope: float) -> Offer | None:
    """What a cut offers to the servers; None when there is no cut."""
    if not cut.found:
        return None
    estimate = ledger_tokens[cut.end] - ledger_tokens[cut.start]
    return Offer(
        start=cut.start,
        end=cut.end,
        head_start=ledger_heads[cut.start],
        head_end=ledger_heads[cut.end],
        span_estimate_tokens=estimate,
        span_tokens=int(slope * estimate),
    )
