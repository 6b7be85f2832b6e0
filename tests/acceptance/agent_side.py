"""Run by test_wheel.py in an environment that holds the wheel and its two base dependencies alone."""

import importlib.util
import sys
import time

from foldahead import Foldahead, Policy
from foldahead.testing import LocalSession

SERVER_SIDE = ("celery", "sqlalchemy", "anthropic", "httpx2", "typer", "flower")


def conversation(rounds: int) -> list[dict[str, object]]:
    """A conversation of plain text, long enough to be compacted."""
    messages: list[dict[str, object]] = []
    for number in range(rounds):
        messages.append({"role": "user", "content": f"Question {number}: " + "what about this part? " * 60})
        messages.append({"role": "assistant", "content": f"Answer {number}: " + "it works like that. " * 60})
    return messages


def goes_on_without_redis() -> None:
    """The README's door, with nobody listening on the other side."""
    fold = Foldahead("redis://127.0.0.1:1/0")
    session = fold.session("ticket-4711", workspace="acme", dialect="anthropic", policy=Policy(threshold_tokens=30_000))
    history = conversation(2)
    started_s = time.monotonic()
    assert session.view(history) == history
    request = session.request(model="claude-haiku-5-5", max_tokens=4096, messages=history)
    assert request["messages"] == history
    session.publish(history, usage={"input_tokens": 100, "output_tokens": 10})
    assert time.monotonic() - started_s < 1, "a turn waited for Redis"
    fold.close()


def compacts_without_services() -> None:
    """The fake for users' tests: a real compaction, with a callable for the summariser."""
    policy = Policy(threshold_tokens=3_000, hard_cap_tokens=8_000, preserve_recent_turns=1, min_span_tokens=100)
    session = LocalSession(policy, "anthropic", summarize=lambda *_: "The user asks; we answer.", delay_turns=0)
    history: list[dict[str, object]] = []
    views: list[list[object]] = []
    for message in conversation(20):
        history.append(message)
        if message["role"] == "user":
            views.append(session.view(history))
        else:
            session.publish(history, usage=None)
    assert any("COMPACTION_SUMMARY" in str(view) for view in views), "no view shows a summary"
    assert len(history) == 40


for name in SERVER_SIDE:
    assert importlib.util.find_spec(name) is None, f"{name} is installed here"
goes_on_without_redis()
compacts_without_services()
assert not [name for name in sys.modules if name.partition(".")[0] in {*SERVER_SIDE, "foldahead_worker"}]
sys.stdout.write("the agent's side works alone\n")
