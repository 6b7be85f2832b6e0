"""Everything that a request can be refused for, in the order in which the stand-in finds it."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final, NoReturn

import msgspec

from foldahead_worker.standin.billing import Step, prompt_steps
from foldahead_worker.standin.compaction import signature_faults, summarised_by
from foldahead_worker.standin.fault import Fault, Json, as_object
from foldahead_worker.standin.models import Model, find_model
from foldahead_worker.standin.options import Options
from foldahead_worker.standin.prefix import Prefix, walk
from foldahead_worker.standin.rules import faults
from foldahead_worker.standin.script import Kind
from foldahead_worker.standin.thinking import Transformation, inspect_thinking

#: The `error.type` of each status (`types/shared/error_type.py` of anthropic 2.14.0).
ERROR_TYPES: Final[dict[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Refusal(msgspec.Struct, frozen=True):
    """An error in place of an answer."""

    status: int
    message: str
    error_code: str | None = None
    error_type: str | None = None
    retry_after_s: float | None = None

    @property
    def type(self) -> str:
        """The broad category, as `error.type` carries it."""
        return self.error_type or ERROR_TYPES.get(self.status, "api_error")


class Understood(msgspec.Struct, frozen=True):
    """A request that the API takes, with what answering and billing it need."""

    model: Model
    prefix: Prefix
    steps: tuple[Step, ...]
    transformations: tuple[Transformation, ...]


def parse_body(body: bytes) -> Json | Refusal:
    """Reads the JSON of a request."""
    try:
        request = as_object(json.loads(body.decode(), parse_constant=_no_constant))
    except UnicodeDecodeError:
        return Refusal(400, "The request body is not valid UTF-8")
    except RecursionError:
        return Refusal(400, "The request body is nested too deeply")
    except ValueError as error:
        return Refusal(400, f"The request body is not valid JSON: {error}")
    return request if request is not None else Refusal(400, "The request body is not a JSON object")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def find_faults(request: Json, kind: Kind, betas: Collection[str], options: Options) -> list[Fault]:
    """Judges a request by the rules that need no key."""
    return faults(
        request,
        kind="count" if kind == "count" else "message",
        betas=betas,
        allow_reused_ids=options.allow_reused_ids,
        allow_unknown_blocks=options.allow_unknown_blocks,
        allow_missing_tools=options.allow_missing_tools,
    )


def understand(request: Json, betas: Collection[str], options: Options) -> Understood | Refusal:
    """Judges a well-formed request by what only the server knows: models, signatures, the window."""
    model = find_model(str(request.get("model")))
    if model is None:
        return Refusal(404, f"model: {request.get('model')}")
    prefix = walk(request, summarised_by)
    found = signature_faults(request, model, options.changed_envelope)
    inspection = inspect_thinking(request, prefix, model, betas, options.foreign_thinking)
    found.extend(inspection.faults)
    if found:
        return refusal_for(found[0])
    steps = tuple(prompt_steps(request, inspection.dropped))
    tokens = steps[-1].tokens if steps else 0
    if tokens > model.window_tokens:
        return Refusal(400, f"prompt is too long: {tokens} tokens > {model.window_tokens} maximum")
    return Understood(model, prefix, steps, inspection.transformations)


def refusal_for(fault: Fault) -> Refusal:
    """Makes the error that a fault is answered with."""
    return Refusal(400, str(fault), fault.error_code)
