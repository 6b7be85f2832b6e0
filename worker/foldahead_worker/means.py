"""Which summariser serves a session: the policy's model where there is a key for it, else rules."""

import logging
from collections.abc import Mapping
from typing import Any, Protocol, cast

from foldahead.core.decide import Means
from foldahead.core.models import Model, find_model, unknown_model
from foldahead.core.native import NATIVE_PROMPT_VERSION
from foldahead.core.policy import Policy
from foldahead.core.prompt import PROMPT_VERSION
from foldahead.core.standing import Standing
from foldahead_worker.summarizers.extract import EXTRACT_VERSION

SUMMARY_S = {"extract": 0.5, "text": 30.0, "native": 30.0}
"""99.5th percentile of the time a summary takes, before any was measured: 25 to 28 s blocking in Claude
Code (facts.md).
"""

NATIVE_PROVIDER = "anthropic"
"""On-demand compaction is read of no other provider (facts.md)."""
NATIVE_FAILED = "native:"
"""What the reason begins with that a session is told when a native summary failed: the next one is text."""
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

    def means(self, workspace: str, standing: Standing, failed: str = "") -> Means:
        """What makes a summary for a session of this workspace as it stands. `failed`: why its last job did."""
        policy = standing.policy
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
            why_not = self._why_not_native(workspace, standing, failed)
            if not why_not:
                return Means(
                    kind="native",
                    model=f"{NATIVE_PROVIDER}:{standing.model}",
                    prompt_version=NATIVE_PROMPT_VERSION,
                    summary_s=SUMMARY_S["native"] + self._delay_s,
                )
            self._say_once(workspace, f"native {why_not}", f"{why_not}: summaries are text")
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

    def _why_not_native(self, workspace: str, standing: Standing, failed: str) -> str:
        """Why the provider cannot write a session's summary itself; empty when it can."""
        if failed.startswith(NATIVE_FAILED):
            return "the last native summary failed"
        if not standing.envelope:
            return "native wants the Messages dialect, session.request, a model that compacts, and no pins"
        known = find_model(standing.model, self._models)
        if known is None or known.price is None or not known.compacts:
            return f"model {standing.model!r} is not known to compact, or has no price"
        return "" if self._keys.has(workspace, NATIVE_PROVIDER) else f"no key for {NATIVE_PROVIDER}"

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
