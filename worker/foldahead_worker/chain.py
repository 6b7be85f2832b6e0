"""Whether bodies are what a request's head commits to. Pure: nothing that Redis holds is believed without this."""

from collections.abc import Sequence

import msgspec

from foldahead.core import canonical
from foldahead.core.messages import Message
from foldahead.core.request import SummaryRequest


def first_message(request: SummaryRequest) -> int:
    """Index of the first message that a summariser must see: with a parent, the one after the parent's span."""
    return request.parent_end if request.parent else request.start


def checked_messages(
    request: SummaryRequest, head_before: bytes, bodies: Sequence[tuple[bytes, bytes]]
) -> tuple[Message, ...] | None:
    """The messages, decoded, if they hash from `head_before` to the request's head; None if not.

    `head_before` itself needs no proof: no other start reaches the same head.
    """
    if len(bodies) != request.end - first_message(request):
        return None
    head = head_before
    for _, body in bodies:
        head = canonical.next_head(head, canonical.digest(body))
    if head.hex() != request.head:
        return None
    try:
        return tuple(canonical.decode(body) for _, body in bodies)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
