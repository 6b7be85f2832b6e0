"""`--set name=value`: a policy from the command line."""

import json
from collections.abc import Sequence
from typing import Any

from foldahead.core.policy import Policy, policy_from
from foldahead_worker.cli.faults import BadInput


def value_of(text: str) -> Any:
    """A value as it stands on a command line: JSON if it parses, else a string."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def values_from(settings: Sequence[str]) -> dict[str, Any]:
    """Names and values of repeated `name=value`; the last of a name counts. Raises BadInput."""
    values: dict[str, Any] = {}
    for setting in settings:
        name, separator, text = setting.partition("=")
        if not separator or not name.strip():
            raise BadInput(f"expected name=value, as in threshold_tokens=20000, got {setting!r}")
        values[name.strip()] = value_of(text)
    return values


def policy_of(settings: Sequence[str]) -> Policy:
    """The policy of repeated `--set`. Raises BadInput, InvalidPolicy."""
    return policy_from(values_from(settings))
