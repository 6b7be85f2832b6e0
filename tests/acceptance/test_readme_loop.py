"""The README's loop with the real SDK against a strict API server, in one process and in sixty."""

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from foldahead import Foldahead, keys
from foldahead_worker.settling import settled
from foldahead_worker.standin import RunningStandIn, Scripted, ToolCall, start_standin
from tests.acceptance.readme_agent import (
    POLICY,
    TASK,
    Sent,
    client_of,
    stored,
    take_turn,
    take_turn_in_a_new_process,
)
from tests.stack import RealStack
from tests.waiting import wait_until

TURNS = 60

pytestmark = pytest.mark.timeout(300)
"""Sixty processes in a row, each of which imports the SDK."""


class Run:
    """One run of the loop: what the agent saw of each turn, and the bytes that the API server got."""

    def __init__(self, sent: list[Sent], api: RunningStandIn) -> None:
        calls = api.ledger("message")
        self.sent = sent
        self.outcomes = [call.outcome for call in calls]
        self.input_tokens = [call.input_tokens + call.cache_read_input_tokens for call in calls]
        self.requests = [api.request(call.n) for call in calls]


def calls_of(turn: int) -> tuple[ToolCall, ...]:
    """None, one, or two at once."""
    if turn % 10 == 9:
        return ()
    run = ToolCall(name="run", input={"command": f"pytest -k part_{turn}"})
    read = ToolCall(name="read_file", input={"path": f"src/importer/part_{turn}.py"})
    return (run, read) if turn % 3 == 0 else (run,)


def script() -> list[Scripted]:
    return [
        Scripted(kind="message", text=f"Turn {turn}: on to part {turn}.", tool_calls=calls_of(turn))
        for turn in range(TURNS)
    ]


def one_process(stack: RealStack, api: RunningStandIn) -> list[Sent]:
    fold = Foldahead(stack.redis.url)
    session = fold.session("ticket-4711", workspace="one-process", dialect="anthropic", policy=POLICY)
    history: list[Any] = [{"role": "user", "content": TASK}]
    sent: list[Sent] = []
    with client_of(api.url) as client:
        for _ in range(TURNS):
            sent.append(take_turn(session, client, history))
            stack.wait_settled(session, history[:-1])
    fold.close()
    return sent


def sixty_processes(stack: RealStack, api: RunningStandIn, pool: ProcessPoolExecutor, database: Path) -> list[Sent]:
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE history (at INTEGER PRIMARY KEY, message TEXT)")
        first = stored({"role": "user", "content": TASK})
        connection.execute("INSERT INTO history VALUES (0, ?)", (json.dumps(first),))
    name = ("sixty-processes", "ticket-4711")
    sent: list[Sent] = []
    for _ in range(TURNS):
        turn = pool.submit(take_turn_in_a_new_process, stack.redis.url, api.url, database, name[1], name[0])
        sent.append(turn.result(30))
        wait_until(lambda: settled(stack.client, keys.member(*name)))
    return sent


@pytest.fixture(scope="module")
def runs(
    shared_stack: RealStack, new_processes: ProcessPoolExecutor, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Run, Run]]:
    with start_standin() as api:
        api.script(*script())
        one = Run(one_process(shared_stack, api), api)
        api.reset()
        api.script(*script())
        database = tmp_path_factory.mktemp("history") / "history.db"
        yield one, Run(sixty_processes(shared_stack, api, new_processes, database), api)


def test_no_request_of_sixty_turns_is_refused(runs: tuple[Run, Run]) -> None:
    assert [run.outcomes for run in runs] == [["answered"] * TURNS] * 2


def test_once_the_threshold_is_crossed_every_turn_goes_out_compacted(runs: tuple[Run, Run]) -> None:
    for run in runs:
        crossed = next(at for at, sent in enumerate(run.sent) if sent.tokens_before >= POLICY.threshold)
        assert [sent.compacted for sent in run.sent] == [False] * crossed + [True] * (TURNS - crossed)
        assert crossed < TURNS - 20


def test_what_is_sent_stays_near_the_threshold_however_long_the_session(runs: tuple[Run, Run]) -> None:
    for run in runs:
        assert max(run.input_tokens) < 70_000
        assert run.sent[-1].messages < TURNS


def test_a_new_process_for_each_turn_sends_the_same_requests(runs: tuple[Run, Run]) -> None:
    one, sixty = ([json.dumps(request) for request in run.requests] for run in runs)
    different = [turn for turn in range(TURNS) if one[turn] != sixty[turn]]

    assert different == []
