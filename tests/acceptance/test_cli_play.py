"""`foldahead play` and `demo` as real processes, with the stack that they start themselves."""

import json
import os
import signal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from foldahead_worker.playing.judging import faults_of
from tests.acceptance.cli_runs import LOW, descendants, run, start, strict_json, wait_gone, write_session
from tests.waiting import wait_until


def play(directory: Path, file: str, *arguments: str) -> dict[str, Any]:
    ran = run(directory, "play", file, *LOW, *arguments, "--json")
    assert ran.returncode == 0, ran.stderr
    return strict_json(ran.stdout)


def what_happened(session: dict[str, Any]) -> dict[str, Any]:
    """Of a session's result what does not depend on the machine's speed."""
    swaps = [{name: value for name, value in swap.items() if name != "added_ms"} for swap in session["swaps"]]
    same = ("messages", "turns", "tokens_sent", "tokens_sent_without", "validity_faults", "degraded", "paid", "reused")
    return {"swaps": swaps} | {name: session[name] for name in same}


class Run(NamedTuple):
    """A play of `write_session`, as it was told and as it wrote its requests."""

    result: dict[str, Any]
    requests: Path


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run, for the tests that look at what came of it."""
    folder = tmp_path_factory.mktemp("played")
    return Run(play(folder, str(write_session(folder)), "--out", str(folder / "requests")), folder / "requests")


def test_a_session_swaps_ahead_of_time_and_every_request_is_valid(played: Run) -> None:
    [session] = played.result["sessions"]
    assert session["turns"] == 24
    assert session["swaps"]
    assert all(swap["ready_before_needed"] for swap in session["swaps"])
    assert session["validity_faults"] == session["degraded"] == []
    assert session["tokens_sent"] < session["tokens_sent_without"]
    assert played.result["totals"]["swaps"] == len(session["swaps"])


@pytest.mark.parametrize("arguments", [(), ("--fresh-process",)], ids=["again", "a process for each turn"])
def test_a_run_repeats_and_a_process_for_each_turn_changes_nothing(
    tmp_path: Path, played: Run, arguments: tuple[str, ...]
) -> None:
    [living] = played.result["sessions"]
    [other] = play(tmp_path, str(write_session(tmp_path)), *arguments)["sessions"]
    assert what_happened(other) == what_happened(living)


def test_forks_share_what_was_paid_for(tmp_path: Path) -> None:
    file = str(write_session(tmp_path))
    first, second = play(tmp_path, file, file, "--jobs", "1")["sessions"]
    assert (first["paid"], first["reused"]) == (second["reused"], second["paid"])
    assert first["paid"] > 0


def test_every_request_is_written_whole_so_that_anyone_can_judge_it(played: Run) -> None:
    files = sorted(played.requests.iterdir())
    kept = [json.loads(file.read_text()) for file in files]
    assert [one["turn"] for one in kept] == list(range(1, 25))
    assert {tuple(one) for one in kept} == {("dialect", "session", "turn", "request")}
    assert [faults_of(one["dialect"], one["request"]) for one in kept] == [[]] * 24


def test_with_a_pace_no_turn_waits_for_a_slow_summary(tmp_path: Path) -> None:
    result = play(tmp_path, str(write_session(tmp_path, 26)), "--turn-seconds", "0.4", "--summary-seconds", "0.5")
    [session] = result["sessions"]
    assert session["swaps"]
    assert result["totals"]["added_ms_max"] < 500


def test_a_session_that_is_never_compacted_says_why(tmp_path: Path) -> None:
    [session] = play(tmp_path, str(write_session(tmp_path, turns=14)), "--set", "min_span_tokens=100000")["sessions"]
    assert session["swaps"] == []
    assert any("of at least 100000 tokens" in reason for reason in session["not_worth_it"])


def test_without_json_people_get_a_table(tmp_path: Path) -> None:
    ran = run(tmp_path, "play", str(write_session(tmp_path)), *LOW)
    assert "every request was valid" in ran.stdout
    assert "session.json" in ran.stdout


def test_an_unreachable_redis_is_one_line_and_status_1(tmp_path: Path) -> None:
    ran = run(tmp_path, "play", str(write_session(tmp_path)), FOLDAHEAD_REDIS_URL="redis://127.0.0.1:1/0")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "Redis at redis://127.0.0.1:1/0 cannot be reached" in ran.stderr


@pytest.mark.parametrize("arguments", [("--jobs", "0"), ("--turn-seconds", "-1"), ("--session", "nobody")])
def test_a_bad_argument_is_one_line_and_status_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    ran = run(tmp_path, "play", str(write_session(tmp_path)), *arguments)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_it_is_ended_no_process_is_left(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, "play", str(write_session(tmp_path)), *LOW, "--turn-seconds", "30")
    wait_until(lambda: len(descendants(process.pid)) >= 4, timeout_s=60)
    started = descendants(process.pid)
    process.send_signal(number)
    process.communicate(timeout=30)
    wait_gone(started)


def test_a_worker_that_ends_ends_the_run_with_one_line(tmp_path: Path) -> None:
    process = start(tmp_path, "play", str(write_session(tmp_path)), *LOW, "--turn-seconds", "30")
    wait_until(lambda: len(descendants(process.pid)) >= 4, timeout_s=60)
    [worker] = [pid for pid in descendants(process.pid) if b"\0work\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(worker, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "foldahead work ended with status -9" in err.splitlines()[-1]


def test_the_demo_shows_swaps_within_a_minute_and_leaves_nothing(tmp_path: Path) -> None:
    process = start(tmp_path, "demo")
    wait_until(lambda: len(descendants(process.pid)) >= 3, timeout_s=60)
    started = descendants(process.pid)
    out, err = process.communicate(timeout=90)
    assert (process.returncode, err) == (0, "")
    assert "swapped" in out
    assert "every request is one the provider accepts" in out
    wait_gone(started)
    assert [path for path in tmp_path.iterdir() if path.name.startswith("foldahead-")] == []
