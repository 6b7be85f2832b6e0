"""Whether bodies are what a request's head commits to. Pure: nothing that Redis holds is believed without this."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from foldahead.core import canonical
from foldahead.core.dialects import get_dialect
from foldahead.core.messages import Message
from foldahead.core.originals import decode_original, is_original
from foldahead.core.pairing import Pairing
from foldahead.core.request import SummaryRequest
from foldahead.errors import FoldaheadError


class Proved(Struct, frozen=True):
    """The messages of a span. `originals` are the same as the agent sent them, or empty where it gave less."""

    messages: tuple[Message, ...]
    originals: tuple[Any, ...] = ()


def proved_messages(
    request: SummaryRequest, head_before: bytes, bodies: Sequence[tuple[bytes, bytes]]
) -> Proved | None:
    """The messages, decoded, if they hash from `head_before` to the request's head; None if not.

    `head_before` itself needs no proof: no other start reaches the same head.
    """
    if len(bodies) != request.end - request.first:
        return None
    try:
        read, originals = _read(request, [body for _, body in bodies])
    except (msgspec.DecodeError, FoldaheadError, ValueError, RecursionError):
        return None
    head = head_before
    for body in read:
        head = canonical.next_head(head, canonical.digest(body))
    if head.hex() != request.head:
        return None
    return _decoded(read, originals)


def _decoded(read: Sequence[bytes], originals: Sequence[Any]) -> Proved | None:
    try:
        messages = tuple(map(canonical.decode, read))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return Proved(messages, tuple(originals) if len(originals) == len(messages) else ())


def _read(request: SummaryRequest, bodies: Sequence[bytes]) -> tuple[list[bytes], list[Any]]:
    """All bodies in the canonical form, and those that are originals decoded."""
    dialect = get_dialect(request.dialect)
    pairing = Pairing(merges_runs=dialect.profile.merges_runs)
    read: list[bytes] = []
    originals: list[Any] = []
    for at, body in enumerate(bodies, request.first):
        if is_original(body):
            message = decode_original(body)
            originals.append(message)
            body = canonical.encode(pairing.step(dialect.read(message, at)).message)  # noqa: PLW2901
        read.append(body)
    return read, originals
