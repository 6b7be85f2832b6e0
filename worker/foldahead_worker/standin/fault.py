"""What the judges say: a fault with its place, and what a caller asks them to tolerate."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import msgspec

#: A JSON object as it crossed the wire. The judges look into foreign data, so its values are `Any`.
Json: TypeAlias = dict[str, Any]


class Fault(msgspec.Struct, frozen=True):
    """One reason why a provider refuses a request.

    `path` names the place in the request as sent (`messages[3].content[0]`), `error_code` the stable
    code that the Claude API gives for it, where the SDK has one.
    """

    path: str
    message: str
    error_code: str | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class Tolerance(msgspec.Struct, frozen=True):
    """What a judge lets pass that the API refuses.

    `open_tail`: the last message may hold calls without results (a history between two requests).
    `reused_ids`: call ids as other providers write them: the same one again, any characters.
    `unknown_blocks`: block types from the future. `missing_tools`: tool blocks in a request without
    `tools` (a recorded session that holds messages alone).
    """

    open_tail: bool = False
    reused_ids: bool = False
    unknown_blocks: bool = False
    missing_tools: bool = False


def as_object(value: object) -> Json | None:
    """Gives the value when it is a JSON object, else None."""
    return cast("Json", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[Any] | None:
    """Gives the value when it is a JSON array, else None."""
    return cast("list[Any]", value) if isinstance(value, list) else None
