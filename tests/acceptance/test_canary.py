"""A canary in every message, and in what the provider says, is found nowhere but where content belongs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldahead import Foldahead, keys
from foldahead_worker.standin import RunningStandIn, Scripted
from foldahead_worker.store.schema import events, jobs, spend, waiters
from tests.acceptance.test_killed_callers import claude_stack
from tests.claude import Agent, rounds_of, rows
from tests.stack import RealStack
from tests.waiting import wait_until

pytest_plugins = ["tests.standin_fixtures"]

CANARY = "zxqcanary7731"
KEY = "test-key"
ENDINGS = {
    "a summary": (),
    "a refused request": (Scripted(status=400, error_message=f"{CANARY} is not allowed", times=None),),
    "an error event": (
        Scripted(error_after_events=3, error_message=CANARY, error_type="invalid_request_error", text=CANARY),
    ),
    "a bad answer": (Scripted(text=f"<invoke name='{CANARY}'>{CANARY}</invoke>", times=2),),
}


def words_of(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def rows_with(stack: RealStack, word: str) -> list[str]:
    return [
        table.name
        for table in (jobs, events, spend, waiters)
        for row in rows(stack.store, table)
        if any(word.encode() in words_of(value) for value in row.values())
    ]


def redis_texts(stack: RealStack) -> list[tuple[bytes, bytes]]:
    """What is in the broker's keys and in the stream of events."""
    client: Any = stack.client
    found: list[tuple[bytes, bytes]] = []
    for key in client.keys(f"{keys.BROKER_PREFIX}*"):
        read: dict[bytes, Callable[[], Any]] = {
            b"list": lambda key=key: client.lrange(key, 0, -1),
            b"set": lambda key=key: client.smembers(key),
            b"hash": lambda key=key: client.hgetall(key),
            b"zset": lambda key=key: client.zrange(key, 0, -1),
            b"string": lambda key=key: client.get(key),
        }
        found.append((key, str(read[client.type(key)]()).encode()))
    found.append((b"events", str(client.xrange(keys.EVENTS_STREAM)).encode()))
    return found


REQUEST: dict[str, Any] = {
    "model": "claude-haiku-5-5",
    "system": f"{CANARY} is the word.",
    "tools": [{"name": "read", "description": CANARY, "input_schema": {"type": "object"}}],
}


@pytest.mark.parametrize(
    ("ending", "kind"),
    [*((ending, "text") for ending in ENDINGS), ("a summary", "native"), ("a refused request", "native")],
)
def test_it_is_in_no_log_event_task_row_or_error(
    tmp_path: Path, database_url: str, standin: RunningStandIn, ending: str, kind: str
) -> None:
    standin.script(*ENDINGS[ending])
    with claude_stack(tmp_path, database_url, standin, workers=0) as stack:
        fold = Foldahead(stack.settings.redis_url)
        agent = Agent(fold)
        session = agent.session("s", workspace="default", kind=kind, summary_max_tokens=300)
        agent.publish(session, rounds_of(14, canary=CANARY), **REQUEST)
        wait_until(lambda: any(b"foldahead.compact" in text for _, text in redis_texts(stack)))
        queued = redis_texts(stack)
        stack.add("work-1")
        wait_until(lambda: {job.state for job in stack.jobs()} <= {"done", "failed"}, 20)
        wait_until(lambda: [row for row in rows(stack.store, events) if "started" not in row["kind"]])
        assert [row["kind"] for row in rows(stack.store, jobs)] == [kind]
        for word in (CANARY, KEY):
            assert not [key for key, text in [*queued, *redis_texts(stack)] if word.encode() in text]
            assert not rows_with(stack, word)
        fold.close()
        for name in ("watch-1", "work-1"):
            stack.terminate(name, timeout_s=10)
    logs = {path.name: path.read_text() for path in tmp_path.glob("*.log")}
    assert len(logs) == 2
    for word in (CANARY, KEY):
        assert not [name for name, text in logs.items() if word in text]
