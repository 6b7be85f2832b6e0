"""Which summariser serves a session: the policy's model where there is a key for it, else rules."""

import logging
from typing import Protocol

from foldahead.core.decide import Means
from foldahead.core.policy import Policy
from foldahead.core.prompt import PROMPT_VERSION
from foldahead_worker.summarizers.extract import EXTRACT_VERSION

SUMMARY_S = {"extract": 0.5, "text": 30.0, "native": 60.0}
"""99.5th percentile of the time a summary takes, before any was measured: 25 to 28 s blocking in Claude Code (facts.md)."""

_log = logging.getLogger("foldahead.means")


class Keys(Protocol):
    """Says whether a workspace has a key for a provider."""

    def has(self, workspace: str, provider: str) -> bool: ...


class Chooser:
    """Chooses for the watcher; says once for each workspace that rules take the place of a model."""

    def __init__(self, keys: Keys, *, rules_only: bool, delay_s: float = 0.0) -> None:
        self._keys = keys
        self._rules_only = rules_only
        self._delay_s = delay_s
        self._said: set[str] = set()

    def means(self, workspace: str, policy: Policy) -> Means:
        """What makes a summary for a session of this workspace with this policy."""
        provider = policy.model.partition(":")[0]
        if self._rules_only or not self._keys.has(workspace, provider):
            self._say_once(workspace, provider)
            return Means(
                kind="extract", model="", prompt_version=EXTRACT_VERSION, summary_s=SUMMARY_S["extract"] + self._delay_s
            )
        return Means(
            kind=policy.kind,
            model=policy.model,
            prompt_version=PROMPT_VERSION,
            summary_s=SUMMARY_S[policy.kind] + self._delay_s,
        )

    def _say_once(self, workspace: str, provider: str) -> None:
        if workspace not in self._said and len(self._said) < 10_000:
            self._said.add(workspace)
            why = "rules only are configured" if self._rules_only else f"no key for {provider}"
            _log.warning("workspace %s: %s, summaries are made by rules (extract)", workspace, why)


class OneKey:
    """One key for every workspace, from the settings. Empty: none."""

    def __init__(self, anthropic_api_key: str) -> None:
        self._anthropic = bool(anthropic_api_key)

    def has(self, workspace: str, provider: str) -> bool:  # noqa: ARG002
        return provider == "anthropic" and self._anthropic
