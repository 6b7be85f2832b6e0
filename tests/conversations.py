"""Conversations as an agent with one tool has them, made by rule: the same arguments give the same messages."""

from typing import Any

import redis

from foldahead import Policy, Session
from foldahead_worker.settling import settled
from tests.waiting import wait_until

Messages = list[dict[str, Any]]

POLICY = Policy(threshold_tokens=3_000, hard_cap_tokens=20_000, min_span_tokens=200, preserve_recent_turns=3)
"""Small numbers, so that a conversation of some twenty turns crosses the threshold."""


def opening(topic: str = "the importer") -> Messages:
    """What the user asked for."""
    return [{"role": "user", "content": f"Please mend {topic}; never touch config/prod.yaml."}]


def add_turn(history: Messages, turn: int, words: int = 150, mark: str = "w") -> None:
    """A call and its result, appended as an agent appends them; `mark` tells conversations apart."""
    call = {
        "type": "tool_use",
        "id": f"toolu_{turn}",
        "name": "run",
        "input": {"command": f"make check-{turn}"},
    }
    history.append({"role": "assistant", "content": [{"type": "text", "text": f"Step {turn}."}, call]})
    output = f"check {turn} passed " + " ".join(f"{mark}{turn}_{at}" for at in range(words))
    history.append(
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": output}],
        }
    )


def conversation(turns: int, topic: str = "the importer", words: int = 150, mark: str = "w") -> Messages:
    """The first so many turns."""
    history = opening(topic)
    for turn in range(turns):
        add_turn(history, turn, words, mark)
    return history


def take_turns(session: Session, client: "redis.Redis", turns: int, history: Messages) -> None:
    """Some turns of an agent, each waiting until what it asked for is there; `client` is a server's."""
    for turn in range(turns):
        session.view(history)
        add_turn(history, turn)
        session.publish(history)
        assert session.flush(5)
        wait_until(lambda: settled(client, session.member))
        session.resume(history, timeout=2)


def is_compacted(view: list[Any]) -> bool:
    """Whether a view shows a summary."""
    return "<COMPACTION_SUMMARY" in str(view[:3])
