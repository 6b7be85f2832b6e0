"""What every request of a played agent holds besides its messages. Pure."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from foldahead_worker.importers import ImportedSession
from foldahead_worker.standin.fault import as_list, as_object
from foldahead_worker.standin.models import Model, find_model
from foldahead_worker.standin.schema import THINKING

AGENT_MODEL = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-5"}
"""The agent's model where a recording does not name it: a request has to name one."""
ANSWER_TOKENS = 8_192
_THINKING_TOKENS = 4_096
_INTERLEAVED_BETA = "interleaved-thinking-2025-05-14"
"""Older models think between calls only with it; agents that loop over tools send it."""


class Frame(Struct, frozen=True, kw_only=True):
    """The other arguments of each request of a session: the same ones at every turn."""

    dialect: str
    arguments: dict[str, Any]

    def around(self, messages: list[Any]) -> dict[str, Any]:
        """The request with these messages."""
        return {**self.arguments, "messages": messages}


def recorded_frame(recording: ImportedSession) -> Frame:
    """As the recording has it, and no more."""
    arguments: dict[str, Any] = {
        "model": recording.model or AGENT_MODEL[recording.dialect],
        "max_tokens": ANSWER_TOKENS,
    }
    if recording.system is not None:
        arguments["system"] = recording.system
    if recording.tools:
        arguments["tools"] = recording.tools
    return Frame(dialect=recording.dialect, arguments=arguments)


def claude_frame(recording: ImportedSession, model: str = "") -> Frame:
    """A frame that the Claude API takes, for an agent that asks it.

    The model is the one that is given, else the recording's where it is one of the API's, else a current one; tools
    that are called are declared, and thinking is asked for where the recorded agent thought.
    """
    frame = recorded_frame(recording)
    served = find_model(model or str(frame.arguments["model"]))
    arguments = {**frame.arguments, "model": model or str(frame.arguments["model"])}
    if served is None:
        arguments["model"] = AGENT_MODEL["anthropic"]
        served = find_model(AGENT_MODEL["anthropic"])
    blocks = _blocks(recording.messages)
    names = dict.fromkeys(str(block["name"]) for block in blocks if block.get("type") == "tool_use" and "name" in block)
    if names and not recording.tools:
        # The recording says what they were called with, not what they take.
        arguments["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    if served is not None and any(block.get("type") in THINKING for block in blocks):
        arguments |= _thinking(served)
    return Frame(dialect=recording.dialect, arguments=arguments)


def _thinking(model: Model) -> dict[str, Any]:
    if "adaptive" in model.thinking:
        return {"thinking": {"type": "adaptive"}}
    config = {"type": "enabled", "budget_tokens": _THINKING_TOKENS}
    return {"thinking": config, "betas": [_INTERLEAVED_BETA]}


def _blocks(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        block
        for message in messages
        for value in as_list(message.get("content")) or []
        if (block := as_object(value)) is not None
    ]
