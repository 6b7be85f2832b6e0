"""Services whose summaries are written by the stand-in for the Claude API, asked through the real SDK."""

import contextlib
from collections.abc import Iterator
from typing import Any

from foldahead import Foldahead, Policy
from foldahead.session import Session
from foldahead_worker.gate import Gate
from foldahead_worker.server import make_chooser, make_worker
from foldahead_worker.settings import Settings, accounts_of, read_settings
from foldahead_worker.standin import RunningStandIn
from foldahead_worker.watch import Watcher
from tests.services import Services

MODEL = "anthropic:claude-haiku-5-5"
POLICY: dict[str, Any] = {
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


class ClaudeServices(Services):
    """Watcher, sweeper and worker as threads, set up as `foldahead watch` and `foldahead work` are."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.redis_url, settings.database_url, lambda: None)  # type: ignore[arg-type, return-value]
        self.gate = Gate(self.client, accounts_of(settings))
        self.worker = make_worker(settings, self.store, self.switchboard, self.gate)
        self.watcher = Watcher(self.store, self.switchboard, make_chooser(settings), self._wake)


@contextlib.contextmanager
def claude_services(settings: Settings) -> Iterator[ClaudeServices]:
    services = ClaudeServices(settings)
    services.start()
    try:
        yield services
    finally:
        services.stop()


@contextlib.contextmanager
def agent(settings: Settings, session: str = "s", **policy: Any) -> Iterator[Session]:
    """A session of a real client."""
    fold = Foldahead(settings.redis_url)
    try:
        yield fold.session(session, workspace="acme", policy=Policy(**{"model": MODEL, **POLICY, **policy}))
    finally:
        fold.close()


def turns(count: int, canary: str = "", start: int = 0) -> list[dict[str, Any]]:
    """A history of a question and some rounds of a tool."""
    history: list[dict[str, Any]] = []
    for at in range(start, start + count):
        history.append({"role": "user", "content": f"Please look at src/part_{at}.py {canary}; never touch prod."})
        call = {"type": "tool_use", "id": f"c{at}", "name": "read", "input": {"path": f"src/part_{at}.py", "why": canary}}
        history.append({"role": "assistant", "content": [{"type": "text", "text": f"Step {at} {canary}"}, call]})
        body = f"line of part {at} says nothing much {canary}\n" * 12
        history.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{at}", "content": body}]}
        )
        history.append({"role": "assistant", "content": f"Part {at} is fine {canary}."})
    return history
