"""On-demand compaction: the signed block that stands for a conversation, and its check on the way back.

Sources: the documentation pages "Compaction on demand" and "Compaction and preserved thinking", and
`types/beta/beta_compaction_block.py` of anthropic 2.14.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from foldahead_worker.standin.fault import Fault, Json, as_list, as_object
from foldahead_worker.standin.models import Model
from foldahead_worker.standin.prefix import Prefix, Summarised, envelope, without_cache_control
from foldahead_worker.standin.seal import digest, sign, verify
from foldahead_worker.standin.turns import Block, blocks_of

#: The API takes a block under another model, system or tools; `refuse` shows where a caller did that.
ChangedEnvelope: TypeAlias = Literal["accept", "refuse"]

_TOOL_CHANGES = ("tool_addition", "tool_removal")


def compaction_block(text: str, request: Json, prefix: Prefix, model: Model) -> Json:
    """Makes the block that stands for all messages of a request.

    Only a model with preserved thinking says where the summarised messages ended; thinking kept after
    a block of another model is lost.
    """
    changes = tool_changes(request)
    payload: Json = {
        "content": digest(text),
        "tool_changes": digest(changes),
        "model": model.name,
        "envelope": envelope(request),
        "heads": list(prefix.heads) if model.binds_thinking else [],
        "role": prefix.role,
    }
    token = sign(payload)
    body, _, mac = token.rpartition(".")
    return {
        "type": "compaction",
        "content": text,
        "encrypted_content": body,
        "signature": mac,
        "tool_changes": changes,
    }


def _payload(block: Block) -> Json | None:
    return verify(f"{block.value.get('encrypted_content')}.{block.value.get('signature')}")


def summarised_by(block: Block) -> Summarised | None:
    """Reads what a compaction block stands for; None for a block that does not verify."""
    payload = _payload(block)
    if payload is None:
        return None
    heads = tuple(str(head) for head in as_list(payload.get("heads")) or [])
    return Summarised(heads, str(payload.get("role")), str(payload.get("envelope")))


def signature_faults(request: Json, model: Model, changed: ChangedEnvelope) -> list[Fault]:
    """Checks the compaction block of a request against its signature."""
    for block in _compaction_blocks(request):
        payload = _payload(block)
        if payload is None:
            message = "the compaction block's signature does not verify"
            return [Fault(block.path, message, "compaction_signature_invalid")]
        if payload.get("content") != digest(block.value.get("content")):
            message = "the compaction block's content differs from what its signature recorded"
            return [Fault(block.path, message, "compaction_content_mismatch")]
        if payload.get("tool_changes") != digest(block.value.get("tool_changes")):
            message = "the compaction block's tool_changes differ from what was returned with it"
            return [Fault(block.path, message, "compaction_tool_changes_mismatch")]
        if changed == "refuse":
            return _envelope_faults(block, payload, request, model)
    return []


def _envelope_faults(block: Block, payload: Json, request: Json, model: Model) -> list[Fault]:
    if payload.get("model") != model.name:
        return [Fault(block.path, f"made by {payload.get('model')}, sent to {model.name}")]
    if payload.get("envelope") != envelope(request):
        return [Fault(block.path, "made under another system prompt or other tools")]
    return []


def _compaction_blocks(request: Json) -> Sequence[Block]:
    return [
        block
        for index, value in enumerate(as_list(request.get("messages")) or [])
        if (message := as_object(value)) is not None
        for block in blocks_of(message, index)
        if block.type == "compaction" and block.value.get("content")
    ]


def tool_changes(request: Json) -> list[Json]:
    """Gathers the tool changes in effect at the end of a request, those of an earlier block included."""
    by_tool: dict[str, Json] = {}
    for index, value in enumerate(as_list(request.get("messages")) or []):
        message = as_object(value) or {}
        for block in blocks_of(message, index):
            if block.type == "compaction":
                for change in as_list(block.value.get("tool_changes")) or []:
                    by_tool[_tool_name(change)] = change
            elif block.type in _TOOL_CHANGES:
                plain = as_object(without_cache_control(block.value)) or {}
                by_tool[_tool_name(plain)] = plain
    offered = {str(tool.get("name")) for tool in as_list(request.get("tools")) or [] if not tool.get("defer_loading")}
    return [
        change
        for name, change in sorted(by_tool.items())
        if (change.get("type") == "tool_addition") != (name in offered)
    ]


def _tool_name(change: Json) -> str:
    tool = as_object(change.get("tool")) or {}
    definition = as_object(tool.get("definition")) or tool
    return str(definition.get("name"))
