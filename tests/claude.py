"""Services whose summaries are written by the stand-in for the Claude API, asked through the real SDK."""

import contextlib
import json
import time
from collections.abc import Generator
from typing import Any

import pytest
import redis
from sqlalchemy import Table, select

from foldahead import Foldahead
from foldahead.core.messages import Call, Message, Result, Text
from foldahead.core.policy import policy_from
from foldahead.core.request import SummaryRequest
from foldahead.session import Session
from foldahead_worker.gate import Gate
from foldahead_worker.metrics import Metrics
from foldahead_worker.server import Loop, make_chooser, make_worker
from foldahead_worker.settings import Settings, accounts_of, read_settings
from foldahead_worker.standin import RunningStandIn
from foldahead_worker.store import Store
from foldahead_worker.store.schema import events, jobs, spend, summaries
from foldahead_worker.summarizers.clients import Clients
from foldahead_worker.summarizers.extract import ExtractSummarizer
from foldahead_worker.summarizers.protocol import Interrupted, Span
from foldahead_worker.summarizers.text import TextSummarizer
from foldahead_worker.supply import Supply
from foldahead_worker.sweep import Sweeper
from foldahead_worker.watch import Watcher
from tests.services import Services
from tests.stores import a_request
from tests.waiting import wait_until

LEASE_DEAD_AFTER_S = 15.0
MODEL = "anthropic:claude-haiku-5-5"
POLICY: dict[str, Any] = {
    "model": MODEL,
    "threshold_tokens": 3_000,
    "hard_cap_tokens": 20_000,
    "min_span_tokens": 100,
    "preserve_recent_turns": 2,
    "summary_max_tokens": 1_000,
}


def settings_for(redis_url: str, database_url: str, standin: RunningStandIn, **more: str) -> Settings:
    """The settings of a server that asks the stand-in."""
    environ = {
        "FOLDAHEAD_REDIS_URL": redis_url,
        "FOLDAHEAD_DATABASE_URL": database_url,
        "ANTHROPIC_API_KEY": "test-key",
        "ANTHROPIC_BASE_URL": standin.url,
    }
    return read_settings(environ | more)


@pytest.fixture
def settings(redis_url: str, database_url: str, standin: RunningStandIn) -> Settings:
    return settings_for(redis_url, database_url, standin)


class ClaudeServices(Services):
    """Watcher, sweeper and worker as threads, set up as `foldahead watch` and `foldahead work` set them up."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.redis_url, settings.database_url, ExtractSummarizer)
        self.gate = Gate(self.client, accounts_of(settings))
        self._supply = Supply(settings, self.gate, Metrics())
        # Longer than a heart takes to beat: here a call may last.
        sweeper = Sweeper(self.store, self.switchboard, self._wake, LEASE_DEAD_AFTER_S, 1_000)
        self._loops[-1] = Loop("sweep", 0.2, sweeper.sweep, self._stop)
        self.worker = make_worker(settings, self.store, self.switchboard, self._supply, Metrics())
        self.watcher = Watcher(self.store, self.switchboard, make_chooser(settings), self._wake)

    def stop(self) -> None:
        super().stop()
        self._supply.close()


@contextlib.contextmanager
def claude_services(settings: Settings) -> Generator[ClaudeServices, None, None]:
    services = ClaudeServices(settings)
    services.start()
    try:
        yield services
    finally:
        services.stop()


@contextlib.contextmanager
def agent(settings: Settings) -> Generator["Agent", None, None]:
    """A process that runs agents."""
    fold = Foldahead(settings.redis_url)
    try:
        yield Agent(fold)
    finally:
        fold.close()


class Agent:
    """Plays turns of sessions through a real client."""

    def __init__(self, fold: Foldahead) -> None:
        self._fold = fold

    def session(self, name: str = "s", workspace: str = "acme", **policy: Any) -> Session:
        return self._fold.session(name, workspace=workspace, policy=policy_from(POLICY | policy))

    def publish(self, session: Session, history: list[Any], **request: Any) -> None:
        session.request(**{"model": "claude-sonnet-5-5", "max_tokens": 10, "messages": history} | request)
        session.publish(history)

    def grown(self, name: str = "s", rounds: int = 14, **policy: Any) -> Session:
        """A session that is past the start of paid work, and below its threshold."""
        session = self.session(name, **policy)
        self.publish(session, rounds_of(rounds))
        return session


def rounds_of(count: int, canary: str = "", start: int = 0) -> list[dict[str, Any]]:
    """A history of questions, each with a call, its result and an answer."""
    history: list[dict[str, Any]] = []
    for at in range(start, start + count):
        path = f"src/part_{at}.py"
        call = {"type": "tool_use", "id": f"c{at}", "name": "read", "input": {"path": path, "why": canary}}
        result = {"type": "tool_result", "tool_use_id": f"c{at}"}
        content = f"line of part {at} says nothing much {canary}\n" * 12
        history += [
            {"role": "user", "content": f"Please look at {path} {canary}; never touch prod."},
            {"role": "assistant", "content": [{"type": "text", "text": f"Step {at} {canary}"}, call]},
            {"role": "user", "content": [result | {"content": content}]},
            {"role": "assistant", "content": f"Part {at} is fine {canary}."},
        ]
    return history


def rows(store: Store, table: Table) -> list[dict[str, Any]]:
    """All rows of a table."""
    with store.reading() as connection:
        return [dict(row) for row in connection.execute(select(table)).mappings()]


def the_job(store: Store) -> dict[str, Any]:
    """The one job that there is."""
    (row,) = rows(store, jobs)
    return row


def ended_job(store: Store, timeout_s: float = 15.0) -> dict[str, Any]:
    """The one job, once it is done or failed."""
    wait_until(lambda: [row for row in rows(store, jobs) if row["state"] in ("done", "failed")], timeout_s)
    return the_job(store)


def events_of(store: Store, kind: str) -> list[dict[str, Any]]:
    """Payloads of the events of a kind, as `compaction_failed`."""
    told = [json.loads(row["json"]) for row in rows(store, events)]
    return [event["payload"] for event in told if event["type"] == f"session.{kind}"]


def texts(store: Store) -> list[str]:
    return [row["summary_text"] for row in rows(store, summaries)]


def settled(store: Store) -> int:
    """Picodollars of all spend, reservations that are not settled at what they reserve."""
    return sum(
        row["reserved_picodollars"] if row["settled_picodollars"] is None else row["settled_picodollars"]
        for row in rows(store, spend)
    )


# -- the summariser alone ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def text_summarizer(settings: Settings) -> Generator[TextSummarizer, None, None]:
    """The summariser that a worker would make for workspace `acme`."""
    accounts = accounts_of(settings)
    account = accounts.find("acme", "anthropic")
    assert account is not None
    clients = Clients(accounts.providers)
    with redis.Redis.from_url(settings.redis_url) as client:
        yield TextSummarizer(account, clients, Gate(client, accounts), settings.models)
    clients.close()


def a_span(messages: list[Message], parent_text: str = "", **changes: Any) -> Span:
    values: dict[str, Any] = {"model": MODEL, "message_count": len(messages), **changes}
    request: SummaryRequest = a_request(**values)
    return Span(request=request, messages=tuple(messages), parent_text=parent_text)


def talk(turns: int, words: int = 300) -> list[Message]:
    """Messages as a summariser is given them."""
    messages: list[Message] = []
    for at in range(turns):
        prose = f"In turn {at} we read src/part_{at}.py and it said this and that. " * (words // 14)
        messages += [
            Message("user", (Text(f"question {at}"),)),
            Message("assistant", (Text(prose), Call(str(at), "read", {"path": f"src/part_{at}.py"}))),
            Message("user", (Result(str(at), (Text(f"content of part {at}"),)),)),
        ]
    return messages


class Never:
    """A `Check` that never stops the work, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.calls = 0

    def __call__(self, *, new_call: bool = False) -> None:
        self.asked += 1
        self.calls += new_call


class After:
    """A `Check` that stops the work once some seconds have passed."""

    def __init__(self, seconds: float) -> None:
        self._until_s = time.monotonic() + seconds

    def __call__(self, *, new_call: bool = False) -> None:
        if time.monotonic() > self._until_s:
            raise Interrupted("deadline")
