"""The judge's look at thinking: the parameter, and where thinking blocks stand.

Source: the documentation pages "Troubleshooting thinking" and "Extended thinking". What only the
server can know (signatures, the conversation a block is bound to) is in `thinking.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from foldahead_worker.standin.fault import Fault, Json, as_object
from foldahead_worker.standin.models import find_model
from foldahead_worker.standin.schema import THINKING, THINKING_CONFIGS, field_faults
from foldahead_worker.standin.turns import Block, Turn

BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"
_INTERLEAVED_BETA: Final = "interleaved-thinking-2025-05-14"
_MIN_BUDGET_TOKENS: Final = 1024


def thinking_faults(request: Json, turns: Sequence[Turn], betas: Collection[str] | None) -> list[Fault]:
    """Judges the `thinking` parameter and the place of thinking blocks under it."""
    value = request.get("thinking")
    if value is None:
        return []
    config = as_object(value)
    kind = str(config.get("type")) if config is not None else ""
    shape = THINKING_CONFIGS.get(kind)
    if config is None or shape is None:
        return [Fault("thinking.type", f"one of {', '.join(THINKING_CONFIGS)}")]
    found = field_faults(config, shape, "thinking")
    model = find_model(str(request.get("model")))
    if model is not None and kind not in model.thinking:
        found.append(Fault("thinking.type", f'"thinking.type.{kind}" is not supported for this model'))
    found.extend(_binding_faults(config, betas))
    if kind == "enabled":
        found.extend(_budget_faults(config, request))
        interleaved = betas is not None and _INTERLEAVED_BETA in betas
        found.extend(_order_faults(turns, interleaved))
    return found


def _binding_faults(config: Json, betas: Collection[str] | None) -> list[Fault]:
    binding = as_object(config.get("block_binding"))
    if not binding:
        return []
    path = "thinking.block_binding"
    if betas is not None and BINDING_BETA not in betas:
        return [Fault(path, f"requires anthropic-beta: {BINDING_BETA}")]
    unknown = sorted(binding.keys() - {"prefix_mismatch_behavior"})
    found = [Fault(f"{path}.{name}", "Extra inputs are not permitted") for name in unknown]
    if binding.get("prefix_mismatch_behavior") not in (None, "error", "drop_block"):
        found.append(Fault(f"{path}.prefix_mismatch_behavior", "'error' or 'drop_block'"))
    return found


def _budget_faults(config: Json, request: Json) -> list[Fault]:
    budget, max_tokens = config.get("budget_tokens"), request.get("max_tokens")
    path = "thinking.budget_tokens"
    if not isinstance(budget, int) or budget < _MIN_BUDGET_TOKENS:
        return [Fault(path, f"at least {_MIN_BUDGET_TOKENS}")]
    if isinstance(max_tokens, int) and budget >= max_tokens:
        return [Fault("max_tokens", "must be greater than `thinking.budget_tokens`")]
    return []


def _order_faults(turns: Sequence[Turn], interleaved: bool) -> list[Fault]:
    """With extended thinking the last tool turn starts with thinking, and thinking leads its message."""
    found: list[Fault] = []
    opener = _opener_of_last_tool_turn(turns)
    if opener is not None and opener.type not in THINKING:
        found.append(
            Fault(
                f"{opener.path}.type",
                f"Expected `thinking` or `redacted_thinking`, but found `{opener.type}`: when thinking is"
                " enabled, a final assistant message must start with a thinking block",
            )
        )
    if interleaved:
        return found
    last: Block | None = None
    for block in (block for turn in turns if turn.role == "assistant" for block in turn.blocks):
        follows = last is not None and last.message == block.message and last.type not in THINKING
        if block.type in THINKING and follows:
            found.append(Fault(block.path, "a thinking block must come first in its message"))
        last = block
    return found


def _opener_of_last_tool_turn(turns: Sequence[Turn]) -> Block | None:
    """The first block the model wrote after the last real user message, if a tool cycle is under way."""
    if not turns or turns[-1].role != "user" or not _only_results(turns[-1]):
        return None
    opener: Block | None = None
    for turn in reversed(turns):
        if turn.role == "user" and not _only_results(turn):
            break
        if turn.role == "assistant" and turn.blocks:
            opener = turn.blocks[0]
    return opener


def _only_results(turn: Turn) -> bool:
    return bool(turn.blocks) and all(block.type == "tool_result" for block in turn.blocks)
