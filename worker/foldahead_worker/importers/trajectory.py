"""What harnesses record: OpenAI chat (or Anthropic) messages with bookkeeping in them and around them.

mini-swe-agent (`messages`, `extra`), SWE-agent (`history`), tau-bench (`traj`), tau2-bench (`simulations`).
Each writes its own fields into the messages; what was sent to the provider is what is given here.
"""

from __future__ import annotations

import json
from typing import Any

from foldahead_worker.importers import foreign
from foldahead_worker.importers.dialect import ANTHROPIC, dialect_of
from foldahead_worker.importers.messages import checked
from foldahead_worker.importers.notes import Notes
from foldahead_worker.importers.session import ImportedSession
from foldahead_worker.importers.shape import is_object, object_at, objects, text_at

# The fields of a message that providers (and the proxies before them) take. All else is the harness's.
SENT_OPENAI = (
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "refusal",
    "audio",
    "reasoning_content",
    "thinking_blocks",
)
SENT_ANTHROPIC = ("role", "content")
USER = "user"


def session_of(
    values: list[Any], body: dict[str, Any], name: str, at: str, wanted: str, notes: Notes
) -> ImportedSession:
    """One recorded run. `body` is the object that the list stands in.

    Raises BadMessage or (for formats that are known and not supported) UnknownFormat.
    """
    foreign.refuse(values)
    seen = _agents_own(checked(values, at, notes), at, notes)
    dialect = dialect_of(seen, body, wanted, notes)
    sent = SENT_ANTHROPIC if dialect == ANTHROPIC else SENT_OPENAI
    return ImportedSession(
        name=name,
        dialect=dialect,
        messages=[_as_sent(message, sent) for message in seen],
        system=body.get("system"),
        tools=body.get("tools"),
        model=text_at(body, "model") or _model(body, seen),
        usages=tuple((index, usage) for index, message in enumerate(seen) if (usage := _usage(message))),
        recorded_messages=len(values),
    )


def _agents_own(messages: list[dict[str, Any]], at: str, notes: Notes) -> list[dict[str, Any]]:
    """Without what a simulated user did with tools of its own (tau2): that never reached the agent."""
    kept: list[dict[str, Any]] = []
    calls = results = 0
    for message in messages:
        own_calls = objects(message.get("tool_calls"))
        if message["role"] == "tool" and message.get("requestor") == USER:
            results += 1
        elif message["role"] == USER and own_calls:
            calls += len(own_calls)
            if message.get("content"):
                kept.append({key: value for key, value in message.items() if key != "tool_calls"})
        else:
            kept.append(message)
    if calls or results:
        notes.add(f"{at}: {calls} tool calls of the user side and their {results} results passed over")
    return kept


def _as_sent(message: dict[str, Any], sent: tuple[str, ...]) -> dict[str, Any]:
    """The message with a provider's fields only, in their places; nulls go, but for `content`."""
    kept = {key: value for key, value in message.items() if key in sent and (value is not None or key == "content")}
    if message["role"] == "tool" and "tool_call_id" not in kept:
        answered = _answered_call(message)
        if answered is not None:
            kept["tool_call_id"] = answered
    calls = objects(kept.get("tool_calls"))
    if calls:
        kept["tool_calls"] = [_call(call) for call in calls]
    return kept


def _answered_call(message: dict[str, Any]) -> str | None:
    """Which call a result answers: SWE-agent writes a list of one id, tau2 gives the result the call's id."""
    listed = message.get("tool_call_ids")
    if isinstance(listed, list) and listed and isinstance(listed[0], str):
        return listed[0]
    return text_at(message, "id")


def _call(call: dict[str, Any]) -> dict[str, Any]:
    """A call in OpenAI's form; tau2 writes {id, name, arguments: {...}, requestor}."""
    if "function" in call or "name" not in call:
        return call
    arguments = call.get("arguments")
    written = arguments if isinstance(arguments, str) else json.dumps(arguments if arguments is not None else {})
    return {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": call["name"], "arguments": written},
    }


def _usage(message: dict[str, Any]) -> dict[str, Any] | None:
    """What the provider counted for an assistant message: in it (tau2) or in its response (mini-swe)."""
    if message["role"] != "assistant":
        return None
    for usage in (message.get("usage"), object_at(message, "extra", "response").get("usage")):
        if is_object(usage) and any(isinstance(count, int) and count > 0 for count in usage.values()):
            return usage
    return None


def _model(body: dict[str, Any], messages: list[dict[str, Any]]) -> str | None:
    """The agent's model: from the responses, else from the harness's configuration."""
    for message in reversed(messages):
        model = text_at(object_at(message, "extra", "response"), "model")
        if model:
            return model
    return text_at(object_at(body, "info", "config", "model"), "model_name") or text_at(
        object_at(body, "info", "agent_info"), "llm"
    )
