"""One line of a Claude Code log, read with care: people cut, merge and rewrite these files."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from foldahead_worker.importers.messages import fault_of
from foldahead_worker.importers.shape import is_object, object_at, objects, text_at

USER = "user"
ASSISTANT = "assistant"
BOUNDARIES = frozenset({"compact_boundary", "microcompact_boundary"})
INTERRUPTED = "[Request interrupted"  # Claude Code writes this user message itself when a turn is stopped


class LogLine(Struct, frozen=True):
    """What placing a line needs to know. `role` is empty where the line is no message."""

    number: int
    kind: str
    session: str
    agent: str | None
    is_side: bool
    uuid: str | None
    parent: str | None
    is_root: bool
    role: str
    content: Any
    message_id: str | None
    model: str | None
    usage: dict[str, Any]
    fault: str | None
    is_meta: bool
    is_boundary: bool
    is_api_error: bool

    @staticmethod
    def of(number: int, value: dict[str, Any]) -> LogLine:
        """Read a line that has a `type`."""
        kind = value["type"]
        message = value.get("message")
        fault = _fault(message) if kind in (USER, ASSISTANT) else None
        body = message if is_object(message) and kind in (USER, ASSISTANT) and not fault else {}
        return LogLine(
            number=number,
            kind=kind,
            session=text_at(value, "sessionId") or "",
            agent=text_at(value, "agentId"),
            is_side=value.get("isSidechain") is True,
            uuid=text_at(value, "uuid"),
            parent=text_at(value, "parentUuid", "logicalParentUuid"),
            is_root="parentUuid" in value and value["parentUuid"] is None,
            role=text_at(body, "role") or "",
            content=body.get("content"),
            message_id=text_at(body, "id") or text_at(value, "requestId", "uuid"),
            model=text_at(body, "model"),
            usage=object_at(body, "usage"),
            fault=fault,
            is_meta=value.get("isMeta") is True,
            is_boundary=kind == "system" and text_at(value, "subtype") in BOUNDARIES,
            is_api_error=value.get("isApiErrorMessage") is True,
        )

    @property
    def is_message(self) -> bool:
        """Was this sent or received?"""
        return bool(self.role)

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content as blocks."""
        if isinstance(self.content, str):
            return [{"type": "text", "text": self.content}]
        return objects(self.content)

    @property
    def answered(self) -> list[str]:
        """Ids of the calls whose results stand in this line."""
        results = (block for block in objects(self.content) if block.get("type") == "tool_result")
        return [call for block in results if (call := text_at(block, "tool_use_id"))]

    @property
    def called(self) -> list[str]:
        """Ids of the calls made in this line."""
        calls = (block for block in objects(self.content) if block.get("type") == "tool_use")
        return [call for block in calls if (call := text_at(block, "id"))]

    @property
    def is_prompt(self) -> bool:
        """Something that the user wrote."""
        if self.role != USER or self.is_meta or self.answered:
            return False
        return not any(str(block.get("text", "")).startswith(INTERRUPTED) for block in self.blocks)


def _fault(message: Any) -> str | None:
    """What is wrong with a line's `message`; None if it is one that Claude takes or gives."""
    fault = fault_of(message)
    if fault:
        return f"message{fault}"
    if message["role"] not in (USER, ASSISTANT):
        return f"message.role: {message['role']!a}; expected user or assistant"
    return None if message.get("content") is not None else "message.content: null; expected a text or blocks"
