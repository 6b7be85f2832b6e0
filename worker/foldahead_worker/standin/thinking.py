"""Thinking as the API guards it: signed, bound to its conversation on the models that check, whole.

Sources: the documentation pages "Preserved thinking", "Prefix checks on thinking blocks" and
"Troubleshooting thinking"; `types/beta/beta_thinking_dropped_input_transformation.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from foldahead_worker.standin.fault import Fault, Json, as_list, as_object
from foldahead_worker.standin.models import Model, reads_thinking_of
from foldahead_worker.standin.prefix import Place, Prefix, following
from foldahead_worker.standin.schema import THINKING
from foldahead_worker.standin.seal import digest, is_ours, sign, verify
from foldahead_worker.standin.thinking_rules import BINDING_BETA
from foldahead_worker.standin.turns import Block, merged_turns

ForeignThinking: TypeAlias = Literal["accept", "refuse"]

#: A call id of the stand-in says how many thinking blocks stood before the call in its answer.
_CALL_ID: Final = re.compile(r"^toolu_si(\d+)_[0-9a-f]+$")


class Transformation(msgspec.Struct, frozen=True):
    """An entry of `input_transformations`: a thinking block that the model does not see."""

    path: str
    reason: str
    type: str = "thinking_dropped"


class Inspection(msgspec.Struct, frozen=True):
    """What became of the thinking blocks of a request. `dropped` holds the blocks' places."""

    faults: tuple[Fault, ...]
    transformations: tuple[Transformation, ...]
    dropped: frozenset[str]


def signed_content(content: Sequence[Json], head: str, model: str) -> list[Json]:
    """Signs the thinking among the blocks of an answer, bound to a prefix; whatever signature it had is replaced.

    `head` is that of the answer. Each block is bound to those before it too, and says how many there were in all.
    """
    count = sum(block.get("type") in THINKING for block in content)
    made: list[Json] = []
    for block in content:
        payload: Json = {"head": head, "model": model, "text": digest(block.get("thinking", "")), "of": count}
        thinks = block.get("type") in THINKING
        made.append({**block, _seal_field(str(block["type"])): sign(payload)} if thinks else block)
        head = following(head, made[-1])
    return made


def _seal_field(kind: str) -> str:
    return "data" if kind == "redacted_thinking" else "signature"


def call_id(thinking_blocks: int, request_digest: str, index: int) -> str:
    """Makes the id of the call at `index` in an answer that thought that often before it."""
    return f"toolu_si{thinking_blocks}_{digest([request_digest, index])[:20]}"


def inspect_thinking(
    request: Json, prefix: Prefix, model: Model, betas: Collection[str], foreign: ForeignThinking
) -> Inspection:
    """Checks every thinking block that a request sends back."""
    config = as_object(request.get("thinking")) or {}
    binding = as_object(config.get("block_binding")) or {}
    drops = binding.get("prefix_mismatch_behavior") == "drop_block"
    faults: list[Fault] = list(_cut_thinking(request, config))
    gone: list[Transformation] = []
    dropped: set[str] = set()
    failing_in = -1  # the message whose consecutive thinking goes with a block that failed
    for place in prefix.places:
        block = place.block
        if block.type not in THINKING:
            failing_in = -1
            continue
        verdict = "prefix_binding_mismatch" if failing_in == block.message else ""
        verdict = verdict or _judge(place, model, foreign)
        if verdict == "altered":
            faults.append(_refusal(block, ""))
        elif verdict == "prefix_binding_mismatch" and not drops:
            faults.append(_refusal(block, _bound_elsewhere(betas)))
        elif verdict:
            dropped.add(block.path)
            gone.append(Transformation(_api_path(block), verdict))
            failing_in = block.message if verdict == "prefix_binding_mismatch" else -1
    return Inspection(tuple(faults), tuple(gone), frozenset(dropped))


def _judge(place: Place, model: Model, foreign: ForeignThinking) -> str:
    """Names what is wrong with a thinking block: nothing, `altered`, or the binding that it fails."""
    block = place.block
    token = block.value.get(_seal_field(block.type))
    if not is_ours(token):
        refused = model.binds_thinking and foreign == "refuse"
        return "prefix_binding_mismatch" if refused else ""
    payload = verify(token)
    if payload is None or payload.get("text") != digest(block.value.get("thinking", "")):
        return "altered"
    if not reads_thinking_of(model, str(payload.get("model"))):
        return "model_binding_mismatch"
    if model.binds_thinking and payload.get("head") not in place.heads:
        return "prefix_binding_mismatch"
    return ""


def _refusal(block: Block, reason: str) -> Fault:
    return Fault(block.path, f"Invalid `{_seal_field(block.type)}` in `{block.type}` block.{reason}")


def _bound_elsewhere(betas: Collection[str]) -> str:
    reason = (
        " The block is bound to a different conversation. Remove the block, or set"
        ' `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
    )
    if BINDING_BETA not in betas:
        reason += f" That setting requires the `{BINDING_BETA}` value in the `anthropic-beta` header."
    return reason


def _api_path(block: Block) -> str:
    """The place as the API writes it: `messages.3.content.0`."""
    return block.path.replace("[", ".").replace("]", "")


def _cut_thinking(request: Json, config: Json) -> list[Fault]:
    """The latest assistant turn keeps all of its thinking, or on adaptive models none."""
    turns = merged_turns(as_list(request.get("messages")) or [])
    latest = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
    if latest is None:
        return []
    present = sum(block.type in THINKING for block in latest.blocks)
    given = max((_given(block) for block in latest.blocks), default=0)
    cut = 0 < present < given or (present == 0 < given and config.get("type") == "enabled")
    if not cut:
        return []
    message = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified"
    return [Fault(f"messages[{latest.blocks[-1].message}]", message)]


def _given(block: Block) -> int:
    """How many thinking blocks the answer had that a block comes from, as far as the block tells."""
    if block.type in THINKING:
        payload = verify(block.value.get(_seal_field(block.type)))
        return int(payload.get("of", 1)) if payload is not None else 0
    match = _CALL_ID.match(str(block.value.get("id"))) if block.type == "tool_use" else None
    return int(match.group(1)) if match else 0
