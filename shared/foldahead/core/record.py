"""Records: every difference between a history and its view, as plain data.

Records and the history give the view byte for byte, in any process, months later. They are plain JSON, so an
agent may keep them beside its own transcript.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from foldahead.core.canonical import json_of, plain
from foldahead.errors import UnusableRecord

RECORD_VERSION = 1
GIVEN_UP = "request_changed"
"""Reason of a record that takes back a `native` summary: it was made for requests with other model, system or tools."""
THINKING_BOUND = "rejected:thinking_bound"
"""Reason of a withdrawal after which a model counts as one that binds thinking: the provider said so."""
_PLACE = re.compile(r"[0-9]{1,9}(?:/[0-9]{1,9})?")

RecordKind = Literal["swapped", "elided", "truncated", "thinking_removed", "repaired", "pinned"]


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One appended fact about the messages `start` up to, not including, `end` of the original history.

    `head_start` and `head_end` are the chain heads before and after them, hex: a record is used on no other history.
    `message` is what was put in (swapped, truncated, repaired: None where the message was taken out);
    `stubs` maps "index" or "index/block" to the text that took a result's place.
    """

    v: int = RECORD_VERSION
    kind: RecordKind
    start: int
    end: int
    head_start: str
    head_end: str
    cache_key: str | None = None
    message: Any = None
    stubs: dict[str, str] | None = None
    reason: str | None = None
    created_at_ms: int = 0

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two records the same fact, whenever and wherever they were made."""
        put_in = hashlib.sha256(json_of((self.message, self.stubs))).hexdigest()
        return (self.kind, self.start, self.end, self.head_start, self.head_end, self.cache_key, self.reason, put_in)

    @property
    def mark(self) -> str:
        """What names a span's text when a provider refuses it: its cache key, or how and where it was made."""
        return self.cache_key or f"{self.reason}:{self.head_end}"

    @property
    def refused_marks(self) -> tuple[str, ...]:
        """Of a withdrawal: the marks of what is never to be shown again for its span."""
        return (self.cache_key,) if self.cache_key else (f"extract:{self.head_end}", f"truncated:{self.head_end}")

    @property
    def withdraws(self) -> bool:
        """Whether it takes back all that was recorded of these messages: a provider had refused the view."""
        return self.kind == "swapped" and self.message is None and self.reason != GIVEN_UP

    @property
    def gives_up(self) -> bool:
        """Whether it takes back one `native` summary, for requests that it was not made for."""
        return self.kind == "swapped" and self.message is None and self.reason == GIVEN_UP

    @property
    def stands_for_span(self) -> bool:
        """Whether its message stands for its span in the view."""
        return self.kind in ("swapped", "truncated") and self.message is not None


def record_of(
    heads: Sequence[bytes],
    kind: RecordKind,
    start: int,
    end: int,
    now_ms: int,
    *,
    cache_key: str | None = None,
    message: Any = None,
    stubs: dict[str, str] | None = None,
    reason: str | None = None,
) -> Record:
    """A record of the messages `start`..`end` of the history that has these chain heads."""
    return Record(
        kind=kind,
        start=start,
        end=end,
        head_start=heads[start].hex(),
        head_end=heads[end].hex(),
        cache_key=cache_key,
        message=message,
        stubs=stubs,
        reason=reason,
        created_at_ms=now_ms,
    )


def encode_record(record: Record) -> bytes:
    """A record as JSON. Keys of its message keep their order: a view is the same byte for byte after a round trip."""
    return json_of(msgspec.to_builtins(record, enc_hook=plain) | {"v": record.v})


def decode_record(data: bytes | str) -> Record:
    """A record from JSON. Raises `UnusableRecord` when it is damaged or newer than this version reads."""
    try:
        record = msgspec.json.decode(data, type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnusableRecord(f"not a record: {error}") from error
    if record.v > RECORD_VERSION:
        raise UnusableRecord(f"record of version {record.v}: this foldahead reads up to {RECORD_VERSION}, upgrade it")
    if fault := _fault_of(record):
        raise UnusableRecord(f"not a record: {fault}")
    return record


def _fault_of(record: Record) -> str:
    """What in a record no version of ours can have written: it was made by somebody else, or damaged."""
    if not 0 <= record.start < record.end:
        return f"expected a span, got {record.start}..{record.end}"
    if not all(map(_PLACE.fullmatch, record.stubs or {})):
        return 'expected stubs by index or "index/block"'
    if record.kind == "repaired" and record.end != record.start + 1:
        return f"expected one message to be repaired, got {record.start}..{record.end}"
    if record.message is not None and not isinstance(record.message, dict):
        return "expected a message to be an object"
    return ""
