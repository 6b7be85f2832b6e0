"""The independent judge, asked about a list of messages in either dialect."""

from typing import Any

from foldahead_worker.standin import openai_rules, rules


def faults_of(
    messages: list[Any],
    dialect: str,
    *,
    open_tail: bool = False,
    reused_ids: bool = False,
    unknown_blocks: bool = False,
) -> list[str]:
    """Why the provider would refuse these messages; empty when it takes them."""
    allowed: dict[str, Any] = {
        "allow_open_tail": open_tail,
        "allow_reused_ids": reused_ids,
        "allow_unknown_blocks": unknown_blocks,
    }
    if dialect.startswith("openai"):
        return [str(fault) for fault in openai_rules.faults(messages, **allowed)]
    request = {"model": "a-model-unknown-to-the-judge", "max_tokens": 100, "messages": messages}
    return [str(fault) for fault in rules.faults(request, allow_missing_tools=True, **allowed)]
