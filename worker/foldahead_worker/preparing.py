"""Fetching what a job summarises: the parent's text, and the messages, proved by the head."""

from foldahead import keys
from foldahead.core.messages import Message
from foldahead.core.request import SummaryRequest
from foldahead_worker.chain import checked_messages, first_message
from foldahead_worker.store import Store
from foldahead_worker.store.summaries import find_summary
from foldahead_worker.store.waiters import Waiter
from foldahead_worker.summarizers.protocol import Span
from foldahead_worker.switchboard import Switchboard


class ParentGone(Exception):
    """The summary that was to be folded in is not stored any more: this request can never be answered."""


def prepare(
    store: Store, switchboard: Switchboard, request: SummaryRequest, waiters: tuple[Waiter, ...]
) -> Span | None:
    """The span, from any session that waits; None when Redis has the messages of none. Raises `ParentGone`."""
    parent_text = ""
    if request.parent:
        parent = find_summary(store, request.workspace, request.parent)
        if parent is None:
            raise ParentGone
        parent_text = parent.summary_text
    for waiter in waiters:
        messages = _messages_of(switchboard, request, keys.member(waiter.workspace, waiter.session))
        if messages is not None:
            return Span(request=request, messages=messages, parent_text=parent_text)
    return None


def _messages_of(switchboard: Switchboard, request: SummaryRequest, member: str) -> tuple[Message, ...] | None:
    first = first_message(request)
    start, head_before, bodies = switchboard.bodies(member, first, request.end)
    if start != first or len(bodies) < request.end - first:
        return None
    messages = checked_messages(request, head_before, bodies)
    if messages is None:
        switchboard.discard_bodies(member)
    return messages
