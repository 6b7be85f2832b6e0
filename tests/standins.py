"""Talking to the stand-in for the Claude API through the real SDK; its fixtures: standin_fixtures.py."""

from typing import Any

import anthropic

from foldahead_worker.standin import Call, RunningStandIn, Scripted
from tests.waiting import wait_until

TOOL: Any = {"name": "read_file", "description": "reads", "input_schema": {"type": "object"}}
COMPACT_BETA = "compact-2026-09-04"
BINDING_BETA = "thinking-binding-controls-2026-08-01"
SUMMARIZE = {"type": "summarize"}


def client_of(standin: RunningStandIn, api_key: str = "test") -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=standin.url, api_key=api_key, max_retries=0)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def ask(client: anthropic.Anthropic, messages: list[Any] | str = "hello", **more: Any) -> Any:
    """One turn with the cheapest model."""
    asked = [user(messages)] if isinstance(messages, str) else messages
    arguments: Any = {"model": "claude-haiku-5-5", "max_tokens": 1000, "messages": asked} | more
    return client.beta.messages.create(**arguments)


def ask_opus(client: anthropic.Anthropic, messages: list[Any], **more: Any) -> Any:
    """One turn with a model that binds thinking, with the betas of compaction and binding."""
    fixed: dict[str, Any] = {"model": "claude-opus-5-5", "max_tokens": 4000, "system": "Be brief."}
    betas = [COMPACT_BETA, BINDING_BETA]
    return ask(client, messages, **(fixed | {"tools": [TOOL], "betas": betas} | more))


def think(standin: RunningStandIn, client: anthropic.Anthropic, history: list[Any], **more: Any) -> list[Any]:
    """Adds an answer with thinking to a history."""
    standin.script(Scripted(thinking=f"thought after {len(history)}", text=f"answer {len(history)}"))
    reply = ask_opus(client, history, **more)
    return [*history, {"role": "assistant", "content": [block.to_dict() for block in reply.content]}]


def conversation(standin: RunningStandIn, client: anthropic.Anthropic, turns: int) -> list[Any]:
    """A history of some turns, each answer with thinking."""
    history: list[Any] = []
    for at in range(turns):
        history = think(standin, client, [*history, user(f"question {at} about src/a{at}.py")])
    return history


def swapped(client: anthropic.Anthropic, history: list[Any], cut: int, **more: Any) -> list[Any]:
    """The history with its first messages replaced by the block that the API made of them.

    The block goes back as the documentation wants it: what came, and no null added.
    """
    block = ask_opus(client, history[:cut], compaction=SUMMARIZE, **more).content[0].to_dict()
    kept = {name: value for name, value in block.items() if value is not None}
    return [{"role": "assistant", "content": [kept]}, *history[cut:]]


def last_call(standin: RunningStandIn) -> Call:
    """The newest call, once its sending has ended: a client may have its answer before that is written."""
    wait_until(lambda: standin.ledger()[-1].outcome != "open")
    return standin.ledger()[-1]
