"""Fetching what a job summarises: the parent, the envelope, and the messages, proved by the head."""

import msgspec

from foldahead import keys
from foldahead.core.envelope import Envelope
from foldahead.core.request import SummaryRequest
from foldahead_worker.chain import Proved, proved_messages
from foldahead_worker.store import Store
from foldahead_worker.store.summaries import Summary, find_summary
from foldahead_worker.store.waiters import Waiter
from foldahead_worker.summarizers.protocol import Span
from foldahead_worker.switchboard import Switchboard


class ParentGone(Exception):
    """The summary that was to be folded in is not stored any more: this request can never be answered."""


def prepare(
    store: Store, switchboard: Switchboard, request: SummaryRequest, waiters: tuple[Waiter, ...]
) -> Span | None:
    """The span, from any session that waits; None when Redis has not all that it takes of any. Raises `ParentGone`."""
    parent = _parent_of(store, request)
    envelope: Envelope | None = None
    if request.kind == "native" and (envelope := _envelope_of(switchboard, request)) is None:
        return None
    for waiter in waiters:
        proved = _messages_of(switchboard, request, keys.member(waiter.workspace, waiter.session))
        if proved is not None:
            return Span(
                request=request,
                messages=proved.messages,
                parent_text=parent.summary_text if parent else "",
                originals=proved.originals if request.kind == "native" else (),
                parent_block=parent.block if parent else b"",
                envelope=envelope,
            )
    return None


def _parent_of(store: Store, request: SummaryRequest) -> Summary | None:
    if not request.parent:
        return None
    parent = find_summary(store, request.workspace, request.parent)
    if parent is None:
        raise ParentGone
    return parent


def _envelope_of(switchboard: Switchboard, request: SummaryRequest) -> Envelope | None:
    """The envelope that the request's digest names; what is stored under it and is something else is thrown away."""
    stored = switchboard.envelope(request.workspace, request.envelope_digest)
    if stored is None:
        return None
    try:
        envelope = msgspec.json.decode(stored, type=Envelope)
        if envelope.digest == request.envelope_digest:
            return envelope
    except (msgspec.DecodeError, RecursionError):
        pass
    switchboard.discard_envelope(request.workspace, request.envelope_digest)
    return None


def _messages_of(switchboard: Switchboard, request: SummaryRequest, member: str) -> Proved | None:
    start, head_before, bodies = switchboard.bodies(member, request.first, request.end)
    if start != request.first or not head_before or len(bodies) < request.end - request.first:
        return None
    proved = proved_messages(request, head_before, bodies)
    if proved is None or (request.kind == "native" and not proved.originals):
        # They hash to something else, or were sent before the policy asked for `native`: they are sent anew.
        switchboard.discard_bodies(member)
        return None
    return proved
