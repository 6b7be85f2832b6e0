"""The fields of a Messages request: what the API takes, what it needs, where it takes a null.

The table was read from the typed dictionaries of anthropic 2.14.0 (`types/beta/*_param.py`); a test
holds the two side by side. Anything else is "Extra inputs are not permitted".
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldahead_worker.standin.fault import Fault, Json


class Shape(msgspec.Struct, frozen=True):
    """The keys of one JSON object."""

    required: frozenset[str]
    allowed: frozenset[str]
    nullable: frozenset[str]


def read_shape(fields: str) -> Shape:
    """Reads `name!` (required), `name?` (null is taken) and `name` (optional, no null)."""
    names = fields.split()
    return Shape(
        required=frozenset(name[:-1] for name in names if name.endswith("!")),
        allowed=frozenset(name.rstrip("!?") for name in names),
        nullable=frozenset(name[:-1] for name in names if name.endswith("?")),
    )


_SERVER_RESULT = "type! tool_use_id! content! cache_control?"

BLOCKS: Final[dict[str, Shape]] = {
    "text": read_shape("type! text! cache_control? citations?"),
    "image": read_shape("type! source! cache_control? transformations?"),
    "document": read_shape("type! source! cache_control? citations? context? title?"),
    "search_result": read_shape("type! content! source! title! cache_control? citations"),
    "thinking": read_shape("type! thinking! signature!"),
    "redacted_thinking": read_shape("type! data!"),
    "tool_use": read_shape("type! id! name! input! cache_control? caller toolset_name?"),
    "tool_result": read_shape("type! tool_use_id! cache_control? content is_error toolset_name?"),
    "server_tool_use": read_shape("type! id! name! input! cache_control? caller"),
    "web_search_tool_result": read_shape(_SERVER_RESULT + " caller"),
    "web_fetch_tool_result": read_shape(_SERVER_RESULT + " caller"),
    "advisor_tool_result": read_shape(_SERVER_RESULT),
    "code_execution_tool_result": read_shape(_SERVER_RESULT),
    "bash_code_execution_tool_result": read_shape(_SERVER_RESULT),
    "text_editor_code_execution_tool_result": read_shape(_SERVER_RESULT),
    "tool_search_tool_result": read_shape(_SERVER_RESULT),
    "mcp_tool_use": read_shape("type! id! name! input! server_name! cache_control?"),
    "mcp_tool_result": read_shape("type! tool_use_id! cache_control? content is_error"),
    "container_upload": read_shape("type! file_id! cache_control?"),
    "compaction": read_shape("type! cache_control? content? encrypted_content? signature? tool_changes?"),
    "tool_addition": read_shape("type! tool! cache_control?"),
    "tool_removal": read_shape("type! tool! cache_control?"),
    "mcp_tool_listing": read_shape("type! mcp_server_name! tools!"),
    "fallback": read_shape("type! from! to! trigger"),
}

#: Blocks that stand only inside a tool result.
NESTED_BLOCKS: Final[dict[str, Shape]] = {
    "tool_reference": read_shape("type! tool_name! cache_control?"),
    "browser_state": read_shape("type! tabs! cache_control? state_changes?"),
}

SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
SERVER_RESULTS: Final = frozenset(name for name in BLOCKS if name.endswith("_tool_result") and name != "tool_result")
THINKING: Final = frozenset({"thinking", "redacted_thinking"})

_USER = frozenset({"text", "image", "document", "search_result", "tool_result", "container_upload"})
ROLE_BLOCKS: Final[dict[str, frozenset[str]]] = {
    "user": _USER | {"compaction"},
    "assistant": frozenset({"text", "tool_use", "container_upload", "compaction", "fallback"})
    | frozenset({"mcp_tool_listing"})
    | THINKING
    | SERVER_CALLS
    | SERVER_RESULTS,
    "system": frozenset({"text", "tool_addition", "tool_removal"}),
}
RESULT_BLOCKS: Final = frozenset({"text", "image", "search_result", "document"}) | frozenset(NESTED_BLOCKS)

MESSAGES: Final[dict[str, Shape]] = {
    "user": read_shape("role! content!"),
    "assistant": read_shape("role! content!"),
    "system": read_shape("role! content clear_at? output_config?"),
}

_COMMON = "model! messages! cache_control? mcp_servers output_config speed? system thinking tool_choice tools"
_PARAMETERS: Final[dict[str, Shape]] = {
    "message": read_shape(
        _COMMON + " max_tokens! billing_policy? compaction? container? context_management? diagnostics?"
        " fallback_credit_token? fallbacks? inference_geo? metadata service_tier stop_sequences thread?"
        # Not in the SDK's types any more; the API still takes them for the models that had them.
        " stream temperature top_k top_p"
    ),
    "count": read_shape(_COMMON + " billing_policy? compaction? context_management?"),
}
TOOL: Final = read_shape(
    "name! input_schema! type? allowed_callers cache_control? defer_loading description"
    " eager_input_streaming? input_examples strict"
)
CACHE_CONTROL: Final = read_shape("type! ttl")
COMPACTION: Final = read_shape("type! instructions?")
THINKING_CONFIGS: Final[dict[str, Shape]] = {
    "enabled": read_shape("type! budget_tokens! block_binding? display?"),
    "adaptive": read_shape("type! block_binding? display?"),
    "disabled": read_shape("type!"),
    "between_tools": read_shape("type!"),
}


def parameters(kind: str) -> Shape:
    """Gives the top-level fields of a `message` or a `count` request."""
    return _PARAMETERS[kind]


def field_faults(value: Json, shape: Shape, path: str) -> list[Fault]:
    """Finds unknown keys, nulls where none is taken, and required keys that are absent."""
    found: list[Fault] = []
    for name, field in value.items():
        place = f"{path}.{name}" if path else name
        if name not in shape.allowed:
            found.append(Fault(place, "Extra inputs are not permitted"))
        elif field is None and name not in shape.nullable:
            found.append(Fault(place, "null is not permitted here"))
    prefix = f"{path}." if path else ""
    found.extend(Fault(f"{prefix}{name}", "Field required") for name in sorted(shape.required - value.keys()))
    return found
