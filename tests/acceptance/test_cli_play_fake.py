"""`foldahead play --model fake`: the paid path behind a strict stand-in of the Claude API, as real processes."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli_runs import LOW, descendants, run, start, strict_json, wait_gone, write_session
from tests.conversations import conversation
from tests.waiting import wait_until

FAKE = ("--model", "fake")
BINDING = ("--model", "fake:claude-sonnet-5-5")


def play(directory: Path, file: Path, *arguments: str, **environ: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The one session of a file, and the totals."""
    ran = run(directory, "play", str(file), *LOW, *arguments, "--json", **environ)
    assert ran.returncode == 0, ran.stderr
    result = strict_json(ran.stdout)
    [session] = result["sessions"]
    return session, result["totals"]


def write_thoughts(directory: Path, turns: int = 24, words: int = 150) -> Path:
    """A recorded session in which the agent thinks before each call, signed by somebody else."""
    history: list[dict[str, Any]] = []
    for at, message in enumerate(conversation(turns, words=words)):
        if message["role"] == "assistant":
            thought = {"type": "thinking", "thinking": f"What of check {at}?", "signature": "cmVjb3JkZWQ="}
            history.append({**message, "content": [thought, *message["content"]]})
            continue
        history.append(message)
        if at:
            # An answer and a new question: no tool turn stays open for the whole session.
            said = {"type": "text", "text": f"Check {at} is done."}
            history += [{"role": "assistant", "content": [said]}, {"role": "user", "content": f"Now check {at + 1}."}]
    path = directory / "thoughts.json"
    path.write_text(json.dumps(history))
    return path


def test_the_paid_path_is_tried_without_a_key_and_billed_as_it_is_booked(tmp_path: Path) -> None:
    session, totals = play(tmp_path, write_session(tmp_path), *FAKE)
    assert {swap["kind"] for swap in session["swaps"]} == {"text"}
    assert (totals["requests"], totals["refused"]) == (session["turns"], 0)
    assert session["paid"] == totals["summary_calls"] > 0
    assert totals["billed_usd"] == totals["booked_usd"] == pytest.approx(session["cost_usd"])
    assert totals["billed_usd"] > 0


def test_thinking_that_is_bound_to_what_was_sent_stays_valid_over_swaps(tmp_path: Path) -> None:
    session, totals = play(tmp_path, write_thoughts(tmp_path), *BINDING)
    assert session["swaps"]
    assert (totals["requests"], totals["refused"], session["recording_faults"]) == (session["turns"], 0, [])


def test_a_policy_that_keeps_void_thinking_is_refused_and_the_session_goes_on(tmp_path: Path) -> None:
    session, totals = play(tmp_path, write_thoughts(tmp_path), *BINDING, "--set", "tail_thinking=keep")
    assert totals["requests"] > session["turns"]
    assert totals["refused"] == session["refused"] == len(session["validity_faults"]) > 0
    assert "Invalid `signature` in `thinking` block" in session["validity_faults"][0]
    assert session["recording_faults"] == []


def test_thinking_stays_valid_with_a_process_for_each_turn(tmp_path: Path) -> None:
    file = write_thoughts(tmp_path, turns=6, words=600)
    session, totals = play(tmp_path, file, *BINDING, "--fresh-process", "--set", "hard_cap_tokens=3500")
    assert session["swaps"]
    assert (totals["requests"], totals["refused"], session["recording_faults"]) == (session["turns"], 0, [])


def test_no_key_and_no_address_of_the_environment_is_used(tmp_path: Path) -> None:
    keys = tmp_path / "keys" / "anthropic"
    keys.mkdir(parents=True)
    (keys / "acme").write_text("sk-ant-real")
    theirs = {
        "ANTHROPIC_API_KEY": "sk-ant-real",
        "ANTHROPIC_AUTH_TOKEN": "sk-ant-real",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
        "ANTHROPIC_CUSTOM_HEADERS": "x-api-key: sk-ant-real",
        "FOLDAHEAD_KEYS_DIR": str(tmp_path / "keys"),
        "FOLDAHEAD_SUMMARIZER": "extract",
        "HTTP_PROXY": "http://127.0.0.1:1",
    }
    # The stand-in knows the two made-up keys and answers any other with 401.
    session, totals = play(tmp_path, write_session(tmp_path), *FAKE, "--workspace", "acme", **theirs)
    assert {swap["kind"] for swap in session["swaps"]} == {"text"}
    assert (totals["refused"], totals["summary_calls_refused"], session["failed"]) == (0, 0, [])


def test_what_is_wrong_with_the_recording_itself_is_listed_apart(tmp_path: Path) -> None:
    history = conversation(6)
    call, result = history[1]["content"][1], history[2]["content"][0]
    call["name"] = "no name for a tool!"
    assert result["tool_use_id"] == call["id"]
    path = tmp_path / "faulty.json"
    path.write_text(json.dumps(history))
    session, totals = play(tmp_path, path, *FAKE)
    assert (session["refused"], session["validity_faults"], totals["refused"]) == (0, [], 0)
    assert totals["recording_faults"] == len(session["recording_faults"]) == 1
    assert "does not match" in session["recording_faults"][0]


def test_openai_messages_are_judged_too_and_summarised_by_claude(tmp_path: Path) -> None:
    history: list[dict[str, Any]] = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Go."}]
    for at in range(24):
        function = {"name": "run", "arguments": f'{{"check": {at}}}'}
        calls = [{"id": f"call_{at}", "type": "function", "function": function}]
        history.append({"role": "assistant", "content": f"Step {at}.", "tool_calls": calls})
        output = " ".join(f"w{at}_{word}" for word in range(150))
        history.append({"role": "tool", "tool_call_id": f"call_{at}", "content": output})
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(history))
    session, totals = play(tmp_path, path, *FAKE)
    assert {swap["kind"] for swap in session["swaps"]} == {"text"}
    assert (totals["requests"], totals["refused"]) == (session["turns"], 0)


def test_people_are_told_what_the_stand_in_says(tmp_path: Path) -> None:
    ran = run(tmp_path, "play", str(write_session(tmp_path)), *LOW, *FAKE)
    assert "the stand-in: 24 requests sent, 0 refused" in ran.stdout
    assert "in foldahead's books" in ran.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_it_is_ended_no_stand_in_is_left(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, "play", str(write_session(tmp_path)), *LOW, *FAKE, "--turn-seconds", "30")
    # The stand-in, Redis, watcher, worker, and the player.
    wait_until(lambda: len(descendants(process.pid)) >= 5, timeout_s=60)
    started = descendants(process.pid)
    process.send_signal(number)
    process.communicate(timeout=30)
    wait_gone(started)


@pytest.mark.parametrize("named", ["claude-haiku-5-5", "fake:gpt-5", ""])
def test_another_model_than_the_fake_one_is_one_line_and_status_2(tmp_path: Path, named: str) -> None:
    ran = run(tmp_path, "play", str(write_session(tmp_path)), "--model", named)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert "--model" in ran.stderr


def test_the_user_s_own_stack_is_never_pointed_at_a_stand_in(tmp_path: Path) -> None:
    own = {"FOLDAHEAD_REDIS_URL": "redis://127.0.0.1:1/0"}
    ran = run(tmp_path, "play", str(write_session(tmp_path)), *FAKE, **own)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert "unset FOLDAHEAD_REDIS_URL" in ran.stderr
