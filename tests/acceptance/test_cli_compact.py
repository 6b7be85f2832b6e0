"""`foldahead compact` and `replay` as real processes."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from foldahead_worker.cli.run import run as run_command
from tests.acceptance.cli_runs import COMMAND, LOW, environment, run, strict_json, write_session
from tests.conversations import conversation

KEYS = [
    *("outcome", "reason", "messages", "records", "summary", "tokens_before", "tokens_after", "repairs"),
    *("elided", "exhausted", "cache_key", "dropped", "cut_index", "fallback", "elisions"),
]


def test_a_compaction_is_one_json_object_with_these_keys(tmp_path: Path) -> None:
    ran = run(tmp_path, "compact", str(write_session(tmp_path)), "--json", *LOW)
    assert ran.returncode == 0
    result = strict_json(ran.stdout)
    assert list(result) == KEYS
    assert (result["outcome"], ran.stdout.count("\n")) == ("swapped", 1)
    assert result["tokens_after"] < result["tokens_before"]


def test_an_unchanged_conversation_is_no_failure(tmp_path: Path) -> None:
    ran = run(tmp_path, "compact", str(write_session(tmp_path)), "--json")
    result = strict_json(ran.stdout)
    assert (ran.returncode, result["outcome"], result["reason"]) == (0, "unchanged", "below_threshold")
    assert result["messages"] == conversation(24)


def test_force_waives_the_threshold(tmp_path: Path) -> None:
    ran = run(tmp_path, "compact", str(write_session(tmp_path)), "--json", "--force")
    assert strict_json(ran.stdout)["outcome"] == "swapped"


def test_a_summary_file_is_the_summarisers_answer(tmp_path: Path) -> None:
    answer = tmp_path / "answer.txt"
    answer.write_text("The user wants the importer mended; config/prod.yaml is never touched. Checks 0 to 20 passed.")
    ran = run(tmp_path, "compact", str(write_session(tmp_path)), "--json", *LOW, "--summary-file", str(answer))
    assert "config/prod.yaml is never touched" in strict_json(ran.stdout)["summary"]


def test_an_empty_summary_leaves_the_conversation_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    file = write_session(tmp_path)
    ran = run(tmp_path, "compact", str(file), "--json", *LOW, "--summary-file", str(tmp_path / "empty.txt"))
    result = strict_json(ran.stdout)
    assert (result["outcome"], result["reason"]) == ("unchanged", "empty")


def test_odd_content_comes_out_as_json_that_every_reader_takes(tmp_path: Path) -> None:
    messages = conversation(24)
    odd = '{"inf": Infinity, "nan": NaN, "big": 1' + "0" * 60 + ', "cut": "\\ud83d", "nul": "a\\u0000b"}'
    text = json.dumps(messages).replace('{"command": "make check-23"}', odd)
    file = tmp_path / "odd.json"
    file.write_text(text)
    ran = run(tmp_path, "compact", str(file), "--json", *LOW)
    call = strict_json(ran.stdout)["messages"][-2]["content"][1]["input"]
    assert call == {"inf": float("inf"), "nan": None, "big": 10**60, "cut": "\ufffd", "nul": "a\0b"}


def test_without_json_people_read_what_stands_where(tmp_path: Path) -> None:
    ran = run(tmp_path, "compact", str(write_session(tmp_path)), *LOW)
    assert "one summary stands for" in ran.stdout
    assert "byte for byte" in ran.stdout


def test_replay_gives_the_view_byte_for_byte(tmp_path: Path) -> None:
    file = write_session(tmp_path)
    done = run(tmp_path, "compact", str(file), "--json", *LOW)
    (tmp_path / "done.json").write_text(done.stdout)
    ran = run(tmp_path, "replay", str(file), str(tmp_path / "done.json"))
    assert ran.stdout == json.dumps(strict_json(done.stdout)["messages"]) + "\n"


def test_a_reader_that_has_had_enough_is_no_error_of_ours(tmp_path: Path) -> None:
    file = write_session(tmp_path, turns=400)
    command = [*COMMAND, "compact", str(file), "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(tmp_path)
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""


BROKEN = {
    "empty.json": ("", "is empty"),
    "cut.json": ('[{"role": "user", "content": "x', "cut off"),
    "text.json": ("hello", "line 1, column 1"),
    "number.json": ("[1]", "messages[0]"),
    "role.json": ('[{"role": "wizard", "content": "x"}]', "messages[0].role"),
    "content.json": ('[{"role": "user", "content": 5}]', "messages[0].content"),
    "object.json": ('{"a": 1}', "object.json"),
    "deep.json": ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    "digits.json": ('[{"role": "user", "content": "x", "n": ' + "9" * 5_000 + "}]", "4300 digits"),
}


def refusal_of(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of a command that cannot use what it is given. In this process: there are many of them."""
    status = run_command(arguments)
    said = capsys.readouterr()
    assert (status, said.out, said.err.count("\n")) == (2, "", 1)
    return said.err


def test_a_refusal_is_the_status_of_the_process_and_its_only_line(tmp_path: Path) -> None:
    ran = run(tmp_path, "compact", str(tmp_path / "nothing.json"), "--json")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_line_that_names_it_and_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    content, place = BROKEN[name]
    (tmp_path / name).write_text(content)
    said = refusal_of(["compact", str(tmp_path / name), "--json"], capsys)
    assert name in said
    assert place in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--set", "nope=1"), "nope: no such policy field; there are mode, threshold_tokens"),
        (("--set", "threshold_tokens"), "expected name=value"),
        (("--set", "threshold_tokens=-5"), "threshold_tokens: expected a whole number"),
        (("--set", "target_ratio=NaN"), "target_ratio: expected a ratio"),
        (("--set", "mode=sometimes"), "mode: expected one of on, shadow, off"),
        (("--format", "klingon"), "'--format'"),
        (("--session", "nobody"), "it holds: session"),
        (("--summary-file", "/nowhere/at/all"), "--summary-file /nowhere/at/all: cannot be read"),
        (("--bogus",), "--bogus"),
    ],
)
def test_a_bad_argument_is_one_line_that_says_what_was_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert said in refusal_of(["compact", str(write_session(tmp_path)), *arguments], capsys)


def test_a_file_with_several_sessions_wants_a_name_and_lists_them(tmp_path: Path) -> None:
    runs = [{"task_id": at, "trial": 0, "traj": [{"role": "user", "content": "x"}]} for at in (3, 7)]
    (tmp_path / "runs.json").write_text(json.dumps(runs))
    ran = run(tmp_path, "compact", str(tmp_path / "runs.json"))
    assert ran.returncode == 2
    assert "holds 2 sessions, name one of them: task3/trial0, task7/trial0" in ran.stderr
