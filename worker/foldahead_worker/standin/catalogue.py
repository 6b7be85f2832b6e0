"""What `GET /v1/models/{id}` says of a model (`types/beta/beta_model_info.py` of anthropic 2.14.0)."""

from __future__ import annotations

from foldahead_worker.standin.fault import Json
from foldahead_worker.standin.models import Model

_THINKING_TYPES = ("adaptive", "between_tools", "disabled", "enabled")
_EFFORTS = ("low", "medium", "high", "xhigh", "max")


def model_info(model: Model, asked: str) -> Json:
    """Describes a model under the id that was asked for."""
    return {
        "type": "model",
        "id": asked,
        "display_name": model.name.replace("-", " ").title(),
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "deprecated_at": None,
        "retires_at": None,
        "line": model.name.split("-")[1],
        "allowed_fallback_models": [],
        "max_input_tokens": model.window_tokens,
        "max_tokens": model.max_output_tokens,
        "capabilities": _capabilities(model),
    }


def _support(supported: bool) -> Json:
    return {"supported": supported}


def _capabilities(model: Model) -> Json:
    yes = _support(True)
    return {
        "batch": yes,
        "citations": yes,
        "code_execution": yes,
        "compaction": {"supported": model.compacts, "summarize": _support(model.compacts)},
        "context_management": {
            "supported": True,
            "clear_thinking_20251015": yes,
            "clear_tool_uses_20250919": yes,
            "compact_20260112": _support(model.compacts),
        },
        "effort": {"supported": model.compacts, **{effort: _support(model.compacts) for effort in _EFFORTS}},
        "image_input": yes,
        "pdf_input": yes,
        "server_tools": {"supported": True, "code_execution": yes, "web_search": yes},
        "structured_outputs": yes,
        "thinking": {
            "supported": True,
            "types": {kind: _support(kind in model.thinking) for kind in _THINKING_TYPES},
        },
    }
