"""What a summariser is asked, and the cache key that names the answer."""

import hashlib
from typing import Literal

import msgspec
from msgspec import Struct

from foldahead.core.canonical import CANONICAL_VERSION

SummaryKind = Literal["text", "native", "extract"]


class SummaryRequest(Struct, frozen=True, kw_only=True):
    """A summariser's only input besides the bodies that `head` commits to. All that changes the text is in here.

    The span is the `message_count` messages from index `start`; `head` is the chain head after them. With a `parent`
    (the cache key of the summary of the messages up to `parent_end`) the summariser folds: parent and what came since.
    Tokens are estimates, uncalibrated, so that forks of a session ask for the same thing.
    """

    canonical_version: int = CANONICAL_VERSION
    workspace: str
    dialect: str
    kind: SummaryKind
    start: int
    message_count: int
    head: str
    model: str
    prompt_version: str
    max_tokens: int
    length_target_tokens: int
    tool_result_cap: int
    instructions: str = ""
    redaction_version: int
    index_version: int
    parent: str = ""
    parent_end: int = 0
    envelope_digest: str = ""
    """Digest of the `Envelope` of the session's requests (system, tools, betas), hex; `native` only."""
    keeps_thinking: bool = False
    """The messages are summarised with their thinking, just as they were sent; `native` only."""
    bare_until: int = 0
    """Those before this index were sent, and are summarised, without their thinking all the same."""

    @property
    def end(self) -> int:
        """Index into the original history at which the span ends."""
        return self.start + self.message_count

    @property
    def first(self) -> int:
        """Index of the first message that a summariser must see: with a parent, the one after the parent's span."""
        return self.parent_end if self.parent else self.start

    @property
    def cache_key(self) -> str:
        """SHA-256 of this request, hex."""
        return hashlib.sha256(msgspec.msgpack.encode(self, order="deterministic")).hexdigest()
