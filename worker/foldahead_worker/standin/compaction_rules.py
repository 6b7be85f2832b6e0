"""The judge's look at on-demand compaction: the request that asks for it, and the blocks it gave.

Source: the documentation page "Compaction on demand" and `types/compaction_*_error.py` of anthropic
2.14.0. What only the server can know (signatures) is in `compaction.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from foldahead_worker.standin.fault import Fault, Json, as_object
from foldahead_worker.standin.schema import COMPACTION, SERVER_CALLS, SERVER_RESULTS, field_faults
from foldahead_worker.standin.turns import Block, Turn, blocks_of

COMPACT_BETA: Final = "compact-2026-09-04"
_MAX_INSTRUCTIONS_CHARS: Final = 16_384


def compaction_block_faults(messages: Sequence[object], betas: Collection[str] | None) -> list[Fault]:
    """Judges the compaction blocks among the messages: one with content at most, and it stands first."""
    every = [
        (str(message.get("role")), block)
        for index, value in enumerate(messages)
        if (message := as_object(value)) is not None
        for block in blocks_of(message, index)
        if block.type == "compaction"
    ]
    found = [_empty(block) for _, block in every if block.value.get("content") == ""]
    if every and betas is not None and COMPACT_BETA not in betas:
        found.append(Fault(every[0][1].path, "'compaction' is not one of the expected content block types"))
    filled = [(role, block) for role, block in every if block.value.get("content")]
    if len(filled) > 1:
        message = "messages holds more than one compaction block with content"
        found.append(Fault(filled[1][1].path, message, "compaction_block_ambiguous"))
    found.extend(
        Fault(block.path, "the compaction block must be first in messages", "compaction_block_misplaced")
        for role, block in filled[:1]
        if role == "system" or not _is_first(block, messages)
    )
    return found


def _empty(block: Block) -> Fault:
    return Fault(f"{block.path}.content", "empty string content is not allowed")


def _is_first(block: Block, messages: Sequence[object]) -> bool:
    """First in the request, blocks of failed compactions (skipped by the API) aside."""
    for index, value in enumerate(messages):
        message = as_object(value)
        for other in blocks_of(message, index) if message is not None else ():
            if other.type != "compaction" or other.value.get("content"):
                return other.path == block.path
    return False


def compaction_request_faults(request: Json, turns: Sequence[Turn], betas: Collection[str] | None) -> list[Fault]:
    """Judges a request that carries the `compaction` parameter; nothing for one that does not."""
    config = request.get("compaction")
    if config is None:
        return []
    found = _config_faults(config, betas)
    if request.get("context_management") is not None:
        found.append(Fault("context_management", "cannot be combined with compaction"))
    if request.get("stop_sequences"):
        found.append(Fault("stop_sequences", "cannot be combined with compaction"))
    if (as_object(request.get("output_config")) or {}).get("format") is not None:
        found.append(Fault("output_config.format", "cannot be combined with compaction"))
    if (as_object(request.get("tool_choice")) or {}).get("type") in ("any", "tool"):
        found.append(Fault("tool_choice", "'any' and 'tool' cannot be combined with compaction"))
    if not any(turn.blocks for turn in turns if turn.role != "system"):
        message = "no user or assistant content to summarize"
        found.append(Fault("messages", message, "compaction_nothing_to_summarize"))
    return found


def open_turn_faults(request: Json, turns: Sequence[Turn]) -> list[Fault]:
    """A compaction request may not end on an assistant turn that is not finished."""
    if request.get("compaction") is None or not turns or turns[-1].role != "assistant":
        return []
    done = {str(block.value.get("tool_use_id")) for block in turns[-1].blocks if block.type in SERVER_RESULTS}
    for block in turns[-1].blocks:
        is_open = block.type in SERVER_CALLS and str(block.value.get("id")) not in done
        if block.type == "tool_use" or is_open:
            message = f"the conversation ends on the open call {block.value.get('id')!r}"
            return [Fault(block.path, message, "compaction_incomplete_turn")]
    return []


def _config_faults(value: object, betas: Collection[str] | None) -> list[Fault]:
    config = as_object(value)
    if config is None or config.get("type") != "summarize":
        return [Fault("compaction", "compaction is {'type': 'summarize'}")]
    found = field_faults(config, COMPACTION, "compaction")
    if betas is not None and COMPACT_BETA not in betas:
        found.append(Fault("compaction", f"`compaction` requires anthropic-beta: {COMPACT_BETA}"))
    instructions = config.get("instructions")
    if isinstance(instructions, str) and len(instructions) > _MAX_INSTRUCTIONS_CHARS:
        found.append(Fault("compaction.instructions", f"at most {_MAX_INSTRUCTIONS_CHARS} characters"))
    return found
