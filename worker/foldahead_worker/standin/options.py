"""How a stand-in is set up, as one frozen value that crosses to its process as JSON."""

from __future__ import annotations

import msgspec

from foldahead_worker.standin.compaction import ChangedEnvelope
from foldahead_worker.standin.script import Scripted
from foldahead_worker.standin.thinking import ForeignThinking


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a stand-in.

    `foreign_thinking`: what a model that binds thinking does with signatures that no stand-in made.
    `changed_envelope`: whether a compaction block is taken under another model, system or tools; the API
    does. `api_keys`: the keys that are known, null for any. `summary_tokens`: the length of summaries that
    no script gives. `allow_*`: see `Tolerance`.
    """

    foreign_thinking: ForeignThinking = "accept"
    changed_envelope: ChangedEnvelope = "accept"
    api_keys: tuple[str, ...] | None = None
    first_byte_s: float = 0.0
    per_token_s: float = 0.0
    summary_tokens: int = 350
    allow_reused_ids: bool = False
    allow_unknown_blocks: bool = False
    allow_missing_tools: bool = False
    script: tuple[Scripted, ...] = ()
