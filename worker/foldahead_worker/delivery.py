"""Telling sessions how their job ended. Repeated by the sweeper until it was done: a lost step is done again."""

from collections.abc import Sequence

from foldahead import keys
from foldahead.core.standing import Ready
from foldahead.core.tokens import estimate_text
from foldahead.core.wrapper import wrap
from foldahead_worker.store import Store
from foldahead_worker.store.summaries import Summary
from foldahead_worker.store.waiters import BLAMELESS, Waiter, mark_given_up, mark_ready
from foldahead_worker.switchboard import Switchboard


def ready_from(summary: Summary) -> Ready:
    """A stored summary as a session takes it."""
    return Ready(
        cache_key=summary.cache_key,
        kind=summary.kind,
        model=summary.summarization_model,
        start=summary.start,
        end=summary.end,
        head_end=summary.head,
        text=summary.summary_text,
        block=summary.block,
        parent=summary.parent,
        envelope=summary.envelope,
        keeps_thinking=summary.keeps_thinking,
        bare_until=summary.bare_until,
        summary_tokens=_tokens_of(summary),
    )


def _tokens_of(summary: Summary) -> int:
    if summary.kind == "native":
        return estimate_text(summary.summary_text)
    return estimate_text(wrap(summary.summary_text, summary.summarization_model, summary.end))


def deliver(store: Store, switchboard: Switchboard, summary: Summary, waiters: Sequence[Waiter]) -> frozenset[str]:
    """Put a summary at the disposal of all that wait for it. Returns the sessions that had not been told."""
    ready = ready_from(summary)
    for waiter in waiters:
        switchboard.ready(keys.member(waiter.workspace, waiter.session), ready)
    return mark_ready(store, summary.workspace, summary.cache_key, [waiter.session for waiter in waiters])


def give_up(
    store: Store, switchboard: Switchboard, workspace: str, cache_key: str, reason: str, waiters: Sequence[Waiter]
) -> frozenset[str]:
    """Tell all that wait for a summary that there will be none. Returns the sessions that had not been told."""
    counts = reason not in BLAMELESS
    for waiter in waiters:
        switchboard.failed(keys.member(workspace, waiter.session), cache_key, reason, counts=counts)
    return mark_given_up(store, workspace, cache_key, [waiter.session for waiter in waiters])
