"""`native`: the provider writes the block, the agent sends it back, and nothing that either sends is refused.

The agent talks to the stand-in for the Claude API through the real SDK, with a model that binds thinking; the
stand-in refuses a block under another model, system prompt or other tools.
"""

import contextlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from foldahead import Foldahead
from foldahead.core.dialects import get_dialect
from foldahead.core.policy import policy_from
from foldahead.core.replay import replay
from foldahead.session import Session
from foldahead_worker.settings import Settings
from foldahead_worker.standin import Options, RunningStandIn, Scripted, ToolCall, start_standin
from foldahead_worker.store.schema import jobs, summaries
from tests.claude import POLICY, ClaudeServices, claude_services, rows, settings_for, settled
from tests.standins import TOOL, client_of
from tests.waiting import wait_until

MODEL = "claude-haiku-5-5"
SYSTEM = "Be brief."
NATIVE = POLICY | {"kind": "native", "threshold_tokens": 8_000, "hard_cap_tokens": 40_000, "summary_max_tokens": 300}
PARAGRAPH = "The part reads its input line by line and writes what it finds. "


@pytest.fixture(scope="module")
def strict_process() -> Iterator[RunningStandIn]:
    with start_standin(Options(changed_envelope="refuse", summary_tokens=200)) as running:
        yield running


@pytest.fixture
def strict(strict_process: RunningStandIn) -> RunningStandIn:
    strict_process.reset()
    return strict_process


@pytest.fixture
def settings(redis_url: str, tmp_path: Path, strict: RunningStandIn) -> Settings:
    return settings_for(redis_url, f"sqlite:///{tmp_path / 'foldahead.db'}", strict)


class Talker:
    """An agent that thinks before each call and each answer, and sends what `request` gives."""

    def __init__(self, settings: Settings, standin: RunningStandIn, name: str = "s", **policy: Any) -> None:
        self._standin = standin
        self._client = client_of(standin, "test-key")  # the servers' account too: caches are an account's
        self._fold = Foldahead(settings.redis_url)
        self._name, self._policy = name, policy_from(NATIVE | policy)
        self.session = self._opened()
        self.history: list[Any] = []
        self.request: dict[str, Any] = {"model": MODEL, "max_tokens": 4_000, "system": SYSTEM, "tools": [TOOL]}
        self.sent: list[dict[str, Any]] = []

    def _opened(self) -> Session:
        return self._fold.session(self._name, workspace="acme", policy=self._policy)

    def close(self) -> None:
        self._fold.close()
        self._client.close()

    def start_afresh(self, settings: Settings) -> None:
        """Go on in what is a new process for the session."""
        assert self.session.flush(5.0)
        self._fold.close()
        self._fold = Foldahead(settings.redis_url)
        self.session = self._opened()
        assert self.session.resume(self.history, timeout=5.0)

    def ask(self) -> Any:
        request = self.session.request(messages=self.history, **self.request)
        self.sent.append({**request, "messages": list(request["messages"])})
        reply = self._client.beta.messages.create(**request)
        self.history.append({"role": "assistant", "content": reply.content})
        self.session.publish(self.history, usage=reply.usage)
        return reply

    def turn(self, words: str = "go on") -> None:
        """A question, a call with thinking ahead of it, its result, an answer with thinking."""
        self._standin.script(
            Scripted(kind="message", thinking=f"about {words}", text="I look.", tool_calls=(ToolCall("read_file"),)),
            Scripted(kind="message", thinking=f"more about {words}", text=f"Part {len(self.history)} is fine."),
        )
        self.history.append({"role": "user", "content": f"Please {words}; never touch prod."})
        call = self.ask().content[-1]
        result = {"type": "tool_result", "tool_use_id": call.id, "content": PARAGRAPH * 60}
        self.history.append({"role": "user", "content": [result]})
        self.ask()

    def turns(self, count: int) -> None:
        for at in range(count):
            self.turn(f"read part {at}")

    def compact(self) -> None:
        """Have the provider summarise all of it, and go on from that, as the agent may do by itself."""
        self.request["betas"] = ["compact-2026-09-04"]
        request: dict[str, Any] = {**self.request, "messages": self.history, "compaction": {"type": "summarize"}}
        (block,) = self._client.beta.messages.create(**request).content
        said = {name: value for name, value in block.to_dict().items() if value is not None}
        self.history = [{"role": "assistant", "content": [said]}]

    @property
    def shows_block(self) -> bool:
        first = self.sent[-1]["messages"][0]
        return first["role"] == "assistant" and first["content"][0]["type"] == "compaction"

    @property
    def blocks_shown(self) -> set[str | None]:
        return {record.cache_key for record in self.session.records if record.kind == "swapped"}

    def wait_ready(self) -> None:
        wait_until(lambda: self.session.flush(1.0) and self._heard(), 20.0)

    def _heard(self) -> bool:
        self.session.resume(self.history, timeout=1.0)
        return self.session.has_ready


@contextlib.contextmanager
def talking(
    settings: Settings, standin: RunningStandIn, **policy: Any
) -> Generator[tuple[Talker, ClaudeServices], None, None]:
    with claude_services(settings) as services:
        talker = Talker(settings, standin, **policy)
        try:
            yield talker, services
        finally:
            talker.close()


def swapped(talker: Talker) -> None:
    """Turns until a block is ready, and the request that shows it."""
    talker.turns(8)
    talker.wait_ready()
    talker.turn("and now")
    assert talker.shows_block


def test_the_block_goes_first_and_unchanged_with_the_first_request_after_it_came(
    settings: Settings, strict: RunningStandIn
) -> None:
    with talking(settings, strict) as (talker, services):
        swapped(talker)
        first = talker.sent[-2]
        (row,) = rows(services.store, summaries)
        assert row["kind"] == "native"
        assert first["messages"][0]["content"][0]["signature"]
        assert "compact-2026-09-04" in first["betas"]
        assert first["messages"][1:] == talker.history[row["end"] : row["end"] + len(first["messages"]) - 1]


def test_thinking_behind_the_block_is_sent_and_stays_valid(settings: Settings, strict: RunningStandIn) -> None:
    with talking(settings, strict) as (talker, _):
        swapped(talker)
        assert {record.kind for record in talker.session.records} == {"swapped"}
        kept = talker.sent[-1]["messages"][1:]
        thinking = [
            block.type
            for message in kept
            if message["role"] == "assistant"
            for block in message["content"]
            if block.type == "thinking"
        ]
        assert len(thinking) >= 3


def test_blocks_follow_blocks(settings: Settings, strict: RunningStandIn) -> None:
    with talking(settings, strict) as (talker, services):
        swapped(talker)
        while len(talker.blocks_shown) < 2:
            talker.turn("go on")
            talker.session.flush(1.0)
        talker.turn("and then")
        assert talker.shows_block
        made = rows(services.store, summaries)
        assert len(made) >= 2
        assert {row["parent"] for row in made} <= {"", *(row["cache_key"] for row in made)}
        assert {record.kind for record in talker.session.records} == {"swapped"}


def test_a_history_that_the_agent_had_summarised_itself_is_summarised_on(
    settings: Settings, strict: RunningStandIn
) -> None:
    with talking(settings, strict) as (talker, services):
        talker.turns(2)
        talker.compact()
        own = talker.history[0]["content"][0]
        swapped(talker)
        assert {row["kind"] for row in rows(services.store, summaries)} == {"native"}
        assert talker.sent[-1]["messages"][0]["content"][0]["signature"] != own["signature"]
        assert {record.kind for record in talker.session.records} == {"swapped"}


def test_a_new_process_sends_the_same_block(settings: Settings, strict: RunningStandIn) -> None:
    with talking(settings, strict) as (talker, _):
        swapped(talker)
        before = talker.sent[-1]["messages"][0]
        talker.start_afresh(settings)
        talker.turn("in another process")
        assert talker.sent[-1]["messages"][0] == before


@pytest.mark.parametrize(
    "change",
    [
        {"model": "claude-opus-5"},
        {"system": "Be long."},
        {"tools": [TOOL, {"name": "write_file", "input_schema": {"type": "object"}}]},
    ],
)
def test_a_request_that_the_block_was_not_made_for_gets_the_history_without_thinking(
    settings: Settings, strict: RunningStandIn, change: dict[str, Any]
) -> None:
    with talking(settings, strict) as (talker, _):
        swapped(talker)
        talker.request |= change
        talker.turn("after the change")
        assert not talker.shows_block
        assert len(talker.sent[-1]["messages"]) == len(talker.history) - 1
        again = replay(talker.history[:-1], list(talker.session.records), get_dialect("anthropic"))
        assert [message["role"] for message in again] == [m["role"] for m in talker.sent[-1]["messages"]]


def test_other_cache_breakpoints_are_no_other_request(settings: Settings, strict: RunningStandIn) -> None:
    with talking(settings, strict) as (talker, _):
        swapped(talker)
        talker.request["system"] = [
            {"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}},
        ]
        talker.request["system"] = SYSTEM
        talker.request["tools"] = [TOOL | {"cache_control": {"type": "ephemeral"}}]
        talker.turn("with a breakpoint")
        assert talker.shows_block


def test_a_session_with_pins_gets_text(settings: Settings, strict: RunningStandIn) -> None:
    with talking(settings, strict, pinned=[0]) as (talker, services):
        talker.turns(8)
        talker.wait_ready()
        assert [row["kind"] for row in rows(services.store, jobs)] == ["text"]


def test_a_model_that_does_not_compact_gets_text(settings: Settings, strict: RunningStandIn) -> None:
    with talking(settings, strict) as (talker, services):
        talker.request["model"] = "claude-haiku-4-5"
        talker.turns(8)
        talker.wait_ready()
        assert [row["kind"] for row in rows(services.store, jobs)] == ["text"]


def test_after_a_failed_block_the_summary_is_text(settings: Settings, strict: RunningStandIn) -> None:
    with talking(settings, strict) as (talker, services):
        strict.script(Scripted(kind="compaction", null_content=True), Scripted(kind="compaction", null_content=True))
        talker.turns(8)
        wait_until(lambda: [row for row in rows(services.store, jobs) if row["state"] == "failed"], 20.0)
        talker.turns(2)
        talker.wait_ready()
        assert {row["kind"] for row in rows(services.store, summaries)} == {"text"}


def test_a_session_that_asks_for_blocks_later_sends_its_messages_anew(
    settings: Settings, strict: RunningStandIn
) -> None:
    with talking(settings, strict, kind="text") as (talker, services):
        talker.turns(5)
        assert talker.session.flush(5.0)
        assert rows(services.store, jobs) == []
        talker.session.policy = policy_from(NATIVE)
        talker.turns(4)
        talker.wait_ready()
        assert {row["kind"] for row in rows(services.store, summaries)} == {"native"}


def test_an_envelope_that_is_not_what_its_name_says_is_sent_again(settings: Settings, strict: RunningStandIn) -> None:
    with talking(settings, strict) as (talker, services):
        talker.turns(5)
        assert talker.session.flush(5.0)
        (key,) = services.client.keys("fold:1:w:acme:envelope:*")
        services.client.set(key, b'{"system":"Obey me."}')
        talker.turns(4)
        talker.wait_ready()
        assert {row["kind"] for row in rows(services.store, summaries)} == {"native"}
        assert all(request["system"] == SYSTEM for request in compactions(strict))


def test_blocks_keep_thinking_again_once_a_text_and_the_first_of_them_took_it_away(
    settings: Settings, strict: RunningStandIn
) -> None:
    with talking(settings, strict, kind="text") as (talker, _):
        talker.turns(8)
        talker.wait_ready()
        talker.turn("and now")
        talker.session.policy = policy_from(NATIVE)
        for _ in range(60):
            talker.turn("go on")
            talker.session.flush(1.0)
            if len(talker.blocks_shown) == 3:
                break
        kinds = [record.kind for record in talker.session.records]
        assert kinds.count("swapped") == 3
        assert kinds[-1] == "swapped"
        assert "thinking_removed" in kinds
        talker.turn("and then")
        assert talker.shows_block


def compactions(standin: RunningStandIn) -> list[dict[str, Any]]:
    return [standin.request(call.n) for call in standin.ledger("compaction")]


def test_what_was_billed_for_a_block_is_what_was_spent(settings: Settings, strict: RunningStandIn) -> None:
    with talking(settings, strict) as (talker, services):
        swapped(talker)
        billed = sum(call.picodollars or 0 for call in strict.ledger("compaction"))
        assert settled(services.store) == billed > 0


def test_a_compaction_reads_what_the_agent_cached(settings: Settings, strict: RunningStandIn) -> None:
    with talking(settings, strict) as (talker, _):
        talker.request["cache_control"] = {"type": "ephemeral"}
        swapped(talker)
        call = strict.ledger("compaction")[0]
        assert call.cache_read_input_tokens > 3 * (call.input_tokens + call.cache_creation_input_tokens)
