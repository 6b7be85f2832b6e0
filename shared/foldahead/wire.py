"""What crosses Redis between agents and servers, as msgpack.

Versioned as a whole: a reader refuses a newer version in words and never misreads. docs/wire.md has the calls.
"""

from typing import TypeVar

import msgspec
from msgspec import Struct

from foldahead.core.standing import Calibration, Offer, Ready, Shown, Standing
from foldahead.errors import UnusableRecord

WIRE_VERSION = 1

__all__ = ["WIRE_VERSION", "Answer", "Calibration", "Delta", "Offer", "Ready", "Shown", "Standing", "decode", "encode"]


class Delta(Struct, frozen=True, kw_only=True):
    """One publish on its way from the session to the link; the link adds bodies and order."""

    workspace: str
    session: str
    standing: Standing
    due_in_s: float | None
    """None: the session wants no work."""
    upload: bool
    """Whether bodies are to be sent."""


class Answer(Struct, frozen=True, kw_only=True):
    """What Redis said to a publish, a poll or a resume."""

    known: bool
    """Whether Redis knows the session."""
    ready: tuple[Ready, ...] = ()
    records: tuple[bytes, ...] = ()
    """All records of the session in Redis's order, JSON."""
    bodies_from: int | None = None
    """Index from which bodies are wanted; None: Redis has all that it was told of."""
    standing: Standing | None = None
    """The last publish of any process, on resume."""
    idle_s: float = 0.0
    """Seconds since the last publish of any process, by Redis's clock, on resume."""
    job: str = ""
    """Cache key of the job under way."""
    failed: str = ""
    """Why the last job failed, when none is under way: a failure mode and a class, never content."""
    overrides: bytes = b""
    """The workspace's central policy values, JSON."""


Wire = TypeVar("Wire", Offer, Standing, Ready, Delta, Answer)


def encode(value: Struct) -> bytes:
    """A wire struct as msgpack, behind the version."""
    return msgspec.msgpack.encode((WIRE_VERSION, value))


def decode(data: bytes, kind: type[Wire]) -> Wire:
    """A wire struct from msgpack. Raises `UnusableRecord` when it is damaged or of another version."""
    try:
        version, raw = msgspec.msgpack.decode(data, type=tuple[int, msgspec.Raw])
        if version != WIRE_VERSION:
            raise UnusableRecord(f"wire version {version}: this side speaks {WIRE_VERSION}; upgrade the older side")
        return msgspec.msgpack.decode(raw, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        if isinstance(error, UnusableRecord):
            raise
        raise UnusableRecord(f"not a {kind.__name__} of wire version {WIRE_VERSION}: {error}") from error
