"""What people see of a run: the trail of a session in the logs, `inspect`, `top`."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from foldahead import Foldahead
from foldahead_worker.cli.top import screen
from foldahead_worker.overview import Overview, nearest, take_overview
from foldahead_worker.settings import Settings, environment_for
from foldahead_worker.settling import settled
from foldahead_worker.store.events import events_after
from tests.conversations import POLICY, add_turn, opening, take_turns
from tests.services import Services, running_services
from tests.waiting import wait_until

CANARY = "zebracanary"


@pytest.fixture
def services(redis_url: str, database_url: str) -> Iterator[Services]:
    with running_services(redis_url, database_url) as running:
        yield running


@pytest.fixture
def command(redis_url: str, database_url: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    settings = Settings(redis_url=redis_url, broker_url=redis_url, database_url=database_url)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "foldahead_worker.cli", *arguments],
            env=environment_for(settings, os.environ) | {"COLUMNS": "120"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def play(services: Services, redis_url: str, name: str, turns: int = 20) -> None:
    fold = Foldahead(redis_url)
    session, history = fold.session(name, workspace="acme", policy=POLICY), opening(CANARY)
    take_turns(session, services.client, turns, history)
    session.view(history)
    assert session.flush(5)
    fold.close()
    wait_until(lambda: any(row.kind == "session.swapped" for row in events_after(services.store, session=name)))
    wait_until(lambda: services.switchboard.figures.counts().inbox_pending == 0)


def test_a_session_can_be_followed_from_publish_to_swap_by_its_name_and_key(
    services: Services, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "foldahead")
    play(services, redis_url, "ticket-4711")
    trail = [record for record in caplog.records if getattr(record, "session", None) == "ticket-4711"]
    key = next(record.__dict__["cache_key"] for record in trail if record.message == "decided")
    steps = [record.message for record in trail if record.__dict__.get("cache_key") == key]
    assert steps == ["decided", "leased", "delivered", "swapped"]
    (committed,) = [r for r in caplog.records if r.message == "committed" and r.__dict__["cache_key"] == key]
    assert committed.__dict__["job"] == next(r.__dict__["job"] for r in trail if r.message == "leased")
    assert len(key) == 12


def test_no_log_line_holds_a_word_of_content(
    services: Services, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "foldahead")
    play(services, redis_url, "s")
    assert CANARY not in " ".join(str(record.__dict__) for record in caplog.records)


def test_inspect_shows_spans_tokens_summary_and_why(
    services: Services, redis_url: str, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    play(services, redis_url, "ticket-4711")
    ran = command("inspect", "ticket-4711")
    assert ran.returncode == 0, ran.stderr
    for shown in (
        "acme/ticket-4711",
        "in the view",
        "ahead of its threshold",
        "before",
        "after",
        "prod.yaml",
        "swapped",
    ):
        assert shown in ran.stdout


def test_inspect_for_programs_has_everything(
    services: Services, redis_url: str, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    play(services, redis_url, "ticket-4711")
    said = json.loads(command("inspect", "ticket-4711", "--workspace", "acme", "--json").stdout)
    shown = [one for one in said["compactions"] if one["state"] in ("shown", "ready")]
    assert shown[-1]["tokens_out"] < shown[-1]["tokens_in"]
    assert shown[-1]["text"]
    assert "swapped" in {record["kind"] for record in said["records"]}
    swapped = [record["cache_key"] for record in said["records"] if record["kind"] == "swapped"]
    assert [one["cache_key"] for one in said["compactions"] if one["state"] == "shown"] == swapped[-1:]
    assert "session.compaction_completed" in {event["type"] for event in said["events"]}


def test_inspect_of_a_session_that_is_not_known_is_bad_input(
    services: Services, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    ran = command("inspect", "nobody")
    assert ran.returncode == 2
    assert "no session 'nobody' is known, nor is any other" in ran.stderr


def test_inspect_names_the_latest_sessions_where_it_knows_none_of_that_name(
    services: Services, redis_url: str, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    play(services, redis_url, "ticket-4711")
    for given in (("ticket-4712",), ("ticket-4711", "--workspace", "other")):
        ran = command("inspect", *given)
        assert ran.returncode == 2
        assert "acme/ticket-4711" in ran.stderr


def test_inspect_asks_which_workspace_where_there_are_several(
    services: Services, redis_url: str, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    play(services, redis_url, "twin")
    fold = Foldahead(redis_url)
    session, history = fold.session("twin", workspace="umbrella", policy=POLICY), opening()
    for turn in range(18):
        add_turn(history, turn)
    session.publish(history)
    assert session.flush(5)
    wait_until(lambda: settled(services.client, session.member))
    fold.close()
    ran = command("inspect", "twin")
    assert ran.returncode == 2
    assert "acme, umbrella" in ran.stderr


def shown_on_screen(overview: Overview) -> str:
    console = Console(width=140, record=True, file=Path(os.devnull).open("w"))  # noqa: SIM115 - the console's
    console.print(screen(overview, ["a fault in words"]))
    console.file.close()
    return console.export_text()


def test_top_shows_the_sessions_that_are_nearest_to_their_thresholds_first(services: Services, redis_url: str) -> None:
    for turns, name in ((4, "far"), (11, "near")):
        fold = Foldahead(redis_url)
        session, history = fold.session(name, workspace="acme", policy=POLICY), opening()
        for turn in range(turns):
            add_turn(history, turn)
        session.publish(history)
        assert session.flush(5)
        fold.close()
    overview = take_overview(services.store, services.switchboard, rows=10)
    assert [line.session for line in overview.sessions] == ["near", "far"]
    assert [line.session for line in nearest(services.switchboard.figures.sessions(10), rows=1)] == ["near"]
    said = shown_on_screen(overview)
    assert "2 sessions" in said
    assert "a fault in words" in said


def test_top_in_a_pipe_prints_one_screen_and_ends(
    services: Services, redis_url: str, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    play(services, redis_url, "ticket-4711", turns=16)
    ran = command("top")
    assert ran.returncode == 0, ran.stderr
    assert "ticket-4711" in ran.stdout
    assert "1 session " in ran.stdout
