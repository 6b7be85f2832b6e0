"""Which summariser serves a session: the policy's model where there is a key for it, else rules."""

import logging
from collections.abc import Mapping
from typing import Any, Protocol, cast

from foldahead.core.decide import Means
from foldahead.core.models import Model, find_model, unknown_model
from foldahead.core.policy import Policy
from foldahead.core.prompt import PROMPT_VERSION
from foldahead_worker.summarizers.extract import EXTRACT_VERSION

SUMMARY_S = {"extract": 0.5, "text": 30.0}
"""99.5th percentile of the time a summary takes, before any was measured: 25 to 28 s blocking in Claude
Code (facts.md).
"""

_MOST_SAID = 10_000
_log = logging.getLogger("foldahead.means")


class Keys(Protocol):
    """Says whether a workspace has a key for a provider."""

    def has(self, workspace: str, provider: str) -> bool: ...


class Chooser:
    """Chooses for the watcher; says once for each workspace why rules take the place of a model."""

    def __init__(
        self, keys: Keys, *, rules_only: bool, delay_s: float = 0.0, models: Mapping[str, Model] | None = None
    ) -> None:
        """`models`: what the operator says of models, beside what is known."""
        self._keys = keys
        self._rules_only = rules_only
        self._delay_s = delay_s
        self._models = models or {}
        self._said: set[tuple[str, str]] = set()

    def means(self, workspace: str, policy: Policy) -> Means:
        """What makes a summary for a session of this workspace with this policy."""
        why_not = self.why_not(workspace, policy.model)
        if why_not:
            self._say_once(workspace, policy.model, f"{why_not}: summaries are made by rules (extract)")
            return Means(
                kind="extract",
                model="",
                prompt_version=EXTRACT_VERSION,
                summary_s=SUMMARY_S["extract"] + self._delay_s,
            )
        if policy.kind == "native":
            self._say_once(workspace, "native", "no worker makes native summaries yet: summaries are text")
        return Means(
            kind="text", model=policy.model, prompt_version=PROMPT_VERSION, summary_s=SUMMARY_S["text"] + self._delay_s
        )

    def why_not(self, workspace: str, model: str) -> str:
        """Why a model cannot serve a workspace; empty when it can."""
        if self._rules_only:
            return "rules only are configured"
        provider = model.partition(":")[0]
        if not self._keys.has(workspace, provider):
            return f"no key for {provider}"
        known = find_model(model, self._models)
        return unknown_model(model) if known is None or known.price is None else ""

    def _say_once(self, workspace: str, model: str, why: str) -> None:
        if (workspace, model) not in self._said and len(self._said) < _MOST_SAID:
            self._said.add((workspace, model))
            _log.warning("workspace %s: %s", workspace, why)


def check_models(chooser: Chooser, overrides: Mapping[str, Any]) -> None:
    """Says at start which models cannot serve: that of the default policy, and those set for workspaces.

    `overrides`: workspace -> policy values, as `foldahead policy set` stores them.
    """
    named = {"(default)": Policy().model}
    for workspace, values in overrides.items():
        if isinstance(values, dict) and isinstance(model := cast("dict[str, Any]", values).get("model"), str):
            named[workspace] = model
    for workspace, model in named.items():
        why_not = chooser.why_not("" if workspace == "(default)" else workspace, model)
        if why_not:
            _log.warning("workspace %s: model %s is not used: %s", workspace, model, why_not)


class OneKey:
    """One key for every workspace, from the settings. Empty: none."""

    def __init__(self, anthropic_api_key: str) -> None:
        self._anthropic = bool(anthropic_api_key)

    def has(self, workspace: str, provider: str) -> bool:  # noqa: ARG002
        return provider == "anthropic" and self._anthropic
