"""The whole path in one process: agents, Redis, watcher, worker, database. What a user is promised."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from foldahead import Foldahead, Policy, Session
from foldahead.core.dialects import get_dialect
from foldahead.core.record import decode_record
from foldahead.core.replay import replay
from foldahead_worker.clock import now_ms
from foldahead_worker.settling import settled
from foldahead_worker.store.events import events_after
from foldahead_worker.store.records import records_of
from foldahead_worker.store.status import status
from foldahead_worker.summarizers.extract import ExtractSummarizer
from foldahead_worker.summarizers.protocol import Summarizer
from foldahead_worker.summarizers.slowed import SlowedSummarizer
from tests.conversations import POLICY, add_turn, opening
from tests.services import Services, running_services
from tests.waiting import wait_until


@pytest.fixture
def services(redis_url: str, database_url: str) -> Iterator[Services]:
    with running_services(redis_url, database_url) as running:
        yield running


def wait_settled(session: Session, services: Services, history: list[dict[str, Any]]) -> None:
    """Until what the session asked for is there, and it has heard of it."""
    assert session.flush(5)
    wait_until(lambda: settled(services.client, session.member))
    session.resume(history, timeout=2)


def play(session: Session, services: Services, turns: int, history: list[dict[str, Any]]) -> list[list[Any]]:
    """Some turns of an agent; the views that it sent."""
    sent: list[list[Any]] = []
    for turn in range(turns):
        sent.append(copy.deepcopy(session.view(history)))
        add_turn(history, turn + len(history))
        session.publish(history)
        wait_settled(session, services, history)
    return sent


def test_a_session_past_its_threshold_goes_out_compacted_and_its_history_stays_as_it_was(
    services: Services, fold: Foldahead
) -> None:
    session, history = fold.session("s", policy=POLICY), opening()
    original: list[dict[str, Any]] = []

    views = play(session, services, 25, history)
    original = copy.deepcopy(history)
    view = session.view(history)

    assert history == original
    assert len(view) < len(history)
    assert view[0]["content"] == history[0]["content"] or "COMPACTION_SUMMARY" in json.dumps(view[:2])
    assert max(len(view) for view in views) < 30


def test_the_records_in_the_database_give_the_view_again_byte_for_byte(services: Services, fold: Foldahead) -> None:
    session, history = fold.session("s", workspace="acme", policy=POLICY), opening()
    play(session, services, 20, history)
    view = session.view(history)
    session.flush(5)
    wait_until(lambda: services.switchboard.figures.counts().inbox_lag == 0)
    wait_until(lambda: len(records_of(services.store, "acme", "s")) == len(session.records))

    records = [decode_record(record) for record in records_of(services.store, "acme", "s")]

    assert json.dumps(replay(history, records, get_dialect("anthropic"))) == json.dumps(view)


def test_two_processes_that_alternate_on_a_session_show_the_same_view(
    services: Services, fold: Foldahead, redis_url: str
) -> None:
    other = Foldahead(redis_url)
    history = opening()
    sessions = [fold.session("s", policy=POLICY), other.session("s", policy=POLICY)]
    for turn in range(24):
        session = sessions[turn % 2]
        session.resume(history, timeout=2)
        session.view(history)
        add_turn(history, turn)
        session.publish(history)
        wait_settled(session, services, history)

    for session in sessions:
        session.resume(history, timeout=2)
    first, second = (session.view(history) for session in sessions)

    assert first == second
    assert len(first) < len(history)
    other.close()


def test_a_fresh_process_goes_on_where_the_last_one_stopped(
    services: Services, fold: Foldahead, redis_url: str
) -> None:
    steady, history = fold.session("steady", policy=POLICY), opening()
    views = play(steady, services, 22, history)
    fresh_views: list[list[Any]] = []
    replayed = opening()
    for turn in range(22):
        client = Foldahead(redis_url)
        session = client.session("fresh", policy=POLICY)
        replayed = json.loads(json.dumps(replayed))
        session.resume(replayed, timeout=2)
        fresh_views.append(copy.deepcopy(session.view(replayed)))
        add_turn(replayed, turn + len(replayed))
        session.publish(replayed)
        wait_settled(session, services, replayed)
        client.close()

    assert [json.dumps(view) for view in fresh_views] == [json.dumps(view) for view in views]


def test_sessions_forked_from_one_prefix_share_one_job(services: Services, fold: Foldahead) -> None:
    history = opening()
    for turn in range(16):
        add_turn(history, turn)
    forks = [fold.session(f"fork-{at}", policy=POLICY) for at in range(20)]
    for session in forks:
        session.publish(history)
    for session in forks:
        wait_settled(session, services, history)

    views = [session.view(history) for session in forks]

    assert all(view == views[0] for view in views)
    assert len(views[0]) < len(history)
    assert len(set(services.wakeups)) == 1


def test_nothing_crosses_from_one_workspace_to_another(services: Services, fold: Foldahead) -> None:
    history = opening()
    for turn in range(12):
        add_turn(history, turn)
    for workspace in ("acme", "umbrella"):
        session = fold.session("s", workspace=workspace, policy=POLICY)
        session.publish(history)
        wait_settled(session, services, history)

    assert len(set(services.wakeups)) == 2


def test_events_carry_the_payloads_of_the_first_seed_exactly(services: Services, fold: Foldahead) -> None:
    session, history = fold.session("s", workspace="acme", policy=POLICY), opening()
    play(session, services, 20, history)
    session.flush(5)
    wait_until(lambda: any(row.kind == "session.swapped" for row in events_after(services.store)))
    payloads = {row.kind: json.loads(row.json) for row in events_after(services.store, workspace="acme")}

    assert set(payloads["session.compaction_started"]["payload"]) == {
        "session_id",
        "turn_id",
        "watermark_before",
        "span_message_count",
        "span_token_count_in",
        "threshold_or_hard_cap",
    }
    assert set(payloads["session.compaction_completed"]["payload"]) == {
        "session_id",
        "turn_id",
        "watermark_before",
        "watermark_after",
        "span_message_count",
        "span_token_count_in",
        "span_token_count_out",
        "cache_hit",
        "cache_key",
        "cost_usd",
        "latency_ms",
    }
    assert {payload["sensitivity"] for payload in payloads.values()} == {"PSEUDONYMOUS"}


def test_no_event_holds_a_word_of_content(services: Services, fold: Foldahead) -> None:
    session, history = fold.session("s", policy=POLICY), opening("zebracanary")
    play(session, services, 20, history)
    session.flush(5)
    wait_until(lambda: any(row.kind == "session.swapped" for row in events_after(services.store)))

    assert "zebracanary" not in "".join(row.json for row in events_after(services.store))


def test_redis_that_comes_back_empty_only_delays_compaction(services: Services, fold: Foldahead) -> None:
    session, history = fold.session("s", policy=POLICY), opening()
    play(session, services, 12, history)
    services.client.flushall()
    play(session, services, 12, history)

    assert len(session.view(history)) < len(history)


def test_a_session_that_redis_forgot_is_restored_from_the_database(
    services: Services, fold: Foldahead, redis_url: str
) -> None:
    session, history = fold.session("s", policy=POLICY), opening()
    play(session, services, 20, history)
    view = session.view(history)
    session.flush(5)
    wait_until(lambda: len(records_of(services.store, "default", "s")) == len(session.records))
    fold.close()
    services.client.flushall()

    later = Foldahead(redis_url)
    resumed = later.session("s", policy=POLICY)

    assert resumed.resume(history, timeout=5)
    assert resumed.view(history) == view
    later.close()


def test_a_turn_goes_on_when_redis_is_not_there() -> None:
    fold = Foldahead("redis://127.0.0.1:1/0")
    session, history = fold.session("s", policy=POLICY), opening()

    for turn in range(30):
        session.view(history)
        add_turn(history, turn)
        session.publish(history)

    assert not session.resume(history, timeout=0.1)
    assert session.view(history) is history
    fold.close(timeout=0.1)


def test_the_hard_cap_holds_with_redis_away_and_no_call_is_made() -> None:
    fold = Foldahead("redis://127.0.0.1:1/0")
    policy = Policy(threshold_tokens=3_000, hard_cap_tokens=6_000, preserve_recent_turns=3)
    session, history = fold.session("s", policy=policy), opening()
    view = history
    for turn in range(60):
        view = session.view(history)
        add_turn(history, turn)
        session.publish(history)

    assert len(view) < 40
    assert session.last_record is not None
    assert session.last_record.reason == "extract"
    fold.close(timeout=0.1)


def test_a_refused_view_gives_the_history_back_and_the_summary_is_not_shown_again(
    services: Services, fold: Foldahead
) -> None:
    session, history = fold.session("s", policy=POLICY), opening()
    play(session, services, 16, history)
    assert session.view(history) is not history
    refused = session.last_record

    session.rejected(ValueError("400 invalid_request_error"))

    assert session.view(history)[: len(history)] == history or session.last_record is not refused
    assert session.last_record is None or session.last_record.cache_key != (refused.cache_key if refused else "")


def test_forget_deletes_what_is_the_sessions_alone(services: Services, fold: Foldahead) -> None:
    session, history = fold.session("s", workspace="acme", policy=POLICY), opening()
    play(session, services, 16, history)
    session.forget(timeout=2)
    wait_until(lambda: not records_of(services.store, "acme", "s"))

    assert not services.client.keys("fold:1:s:acme/s:*")


def test_shadow_mode_does_all_but_the_swap(services: Services, fold: Foldahead) -> None:
    policy = Policy(mode="shadow", threshold_tokens=3_000, min_span_tokens=200, preserve_recent_turns=3)
    session, history = fold.session("s", policy=policy), opening()
    views = play(session, services, 16, history)

    assert services.wakeups
    assert [len(view) for view in views] == list(range(1, 33, 2))


def test_a_session_that_closes_cancels_the_job_that_nobody_else_waits_for(
    redis_url: str, database_url: str, fold: Foldahead
) -> None:
    def slow() -> Summarizer:
        return SlowedSummarizer(ExtractSummarizer(), 30)

    with running_services(redis_url, database_url, slow) as services:
        session, history = fold.session("s", policy=POLICY), opening()
        for turn in range(12):
            add_turn(history, turn)
        session.publish(history)
        wait_until(lambda: status(services.store, now_ms()).leased == 1)

        session.close()

        wait_until(lambda: status(services.store, now_ms()).leased == 0, timeout_s=15)
        assert status(services.store, now_ms()).done == 0


def test_what_a_fresh_process_records_before_its_first_publish_is_kept(
    services: Services, fold: Foldahead, redis_url: str
) -> None:
    steady, history = fold.session("s", policy=POLICY), opening()
    for turn in range(16):
        add_turn(history, turn)
    steady.publish(history)
    wait_settled(steady, services, history)
    fold.close()

    swapping = Foldahead(redis_url)
    session = swapping.session("s", policy=POLICY)
    session.resume(history, timeout=2)
    view = session.view(history)
    assert session.flush(5)
    swapping.close()

    other = Foldahead(redis_url)
    later = other.session("s", policy=POLICY)
    later.resume(history, timeout=2)
    assert later.records == session.records
    assert later.view(history) == view
    other.close()


def test_a_forgotten_session_does_not_come_back(services: Services, fold: Foldahead) -> None:
    session, history = fold.session("s", workspace="acme", policy=POLICY), opening()
    for turn in range(12):
        add_turn(history, turn)
    session.publish(history)
    session.flush(5)

    session.forget(timeout=2)
    fold.session("other").publish(history)
    assert fold.flush(5)

    assert not services.client.keys("fold:1:s:acme/s:*")
