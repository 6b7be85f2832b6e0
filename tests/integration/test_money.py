"""Money: what is reserved, billed, refused and reported, against what the stand-in billed."""

import pytest
from msgspec import json

from foldahead.core.models import PICO_PER_USD, Model, Price, find_model
from foldahead_worker.settings import InvalidSettings, Settings, read_settings
from foldahead_worker.spending import report_spend
from foldahead_worker.standin import Call, RunningStandIn, Scripted
from foldahead_worker.store.schema import jobs, spend
from tests.claude import (
    agent,
    claude_services,
    ended_job,
    events_of,
    rounds_of,
    rows,
    settings,
    settled,
    texts,
    the_job,
)
from tests.waiting import wait_until

pytest_plugins = ["tests.standin_fixtures"]
__all__ = ["settings"]


def billed(calls: list[Call]) -> int:
    """Picodollars, by the list price of claude-haiku-5-5 up to 100,000 tokens: $0.10 and $0.50 a million."""
    assert all(call.model == "claude-haiku-5-5" and call.input_tokens <= 100_000 for call in calls)
    return sum(call.input_tokens * 100_000 + call.output_tokens * 500_000 for call in calls)


def test_spend_is_what_the_standin_billed(settings: Settings, standin: RunningStandIn) -> None:
    with claude_services(settings) as services, agent(settings) as process:
        for at in range(5):
            process.publish(process.session(f"s{at}"), rounds_of(14, canary=f"only{at}"))
        wait_until(lambda: len(texts(services.store)) == 5)
        assert settled(services.store) == billed(standin.ledger("message"))


def test_no_reservation_is_left_open(settings: Settings, standin: RunningStandIn) -> None:
    with claude_services(settings) as services, agent(settings) as process:
        process.grown()
        ended_job(services.store)
        assert all(row["settled_picodollars"] is not None for row in rows(services.store, spend))


def test_a_reservation_stands_while_a_call_is_open(settings: Settings, standin: RunningStandIn) -> None:
    standin.script(Scripted(first_byte_s=1.0, text="The user wants the parts read."))
    with claude_services(settings) as services, agent(settings) as process:
        process.grown()
        wait_until(lambda: standin.ledger("message"))
        (row,) = rows(services.store, spend)
        assert row["settled_picodollars"] is None
        ended_job(services.store)
        assert row["reserved_picodollars"] >= billed(standin.ledger("message"))


def test_the_event_tells_the_cost(settings: Settings, standin: RunningStandIn) -> None:
    with claude_services(settings) as services, agent(settings) as process:
        process.grown()
        wait_until(lambda: events_of(services.store, "compaction_completed"))
        (event,) = events_of(services.store, "compaction_completed")
        assert event["cost_usd"] == billed(standin.ledger("message")) / PICO_PER_USD


def test_a_soft_trigger_without_budget_is_skipped_silently(settings: Settings, standin: RunningStandIn) -> None:
    with claude_services(settings) as services, agent(settings) as process:
        process.grown(max_cost_per_session_usd=0.000001)
        job = ended_job(services.store)
        assert (job["state"], job["reason"]) == ("failed", "budget_exhausted")
        assert not standin.ledger("message")
        assert not events_of(services.store, "compaction_failed")


def test_the_hard_cap_runs_the_call_all_the_same_and_says_so(settings: Settings, standin: RunningStandIn) -> None:
    with claude_services(settings) as services, agent(settings) as process:
        standin.script(Scripted(kind="message", no_content=True))
        session = process.session(max_cost_per_session_usd=0.000001, hard_cap_tokens=4_000)
        process.publish(session, rounds_of(26))
        wait_until(lambda: texts(services.store))
        modes = [event["failure_mode"] for event in events_of(services.store, "compaction_failed")]
        assert modes == ["budget_exhausted_forced"]
        assert settled(services.store) == billed(standin.ledger("message"))


def test_what_was_skipped_for_want_of_budget_is_forced_at_the_hard_cap(
    settings: Settings, standin: RunningStandIn
) -> None:
    with claude_services(settings) as services, agent(settings) as process:
        session = process.session(max_cost_per_session_usd=0.000001, hard_cap_tokens=4_000)
        process.publish(session, rounds_of(14))
        assert ended_job(services.store)["reason"] == "budget_exhausted"
        process.publish(session, rounds_of(26))
        wait_until(lambda: texts(services.store))
        assert "forced" in {row["urgency"] for row in rows(services.store, jobs)}


def test_a_second_answer_is_reserved_when_the_first_may_not_be_stored(
    settings: Settings, standin: RunningStandIn
) -> None:
    with claude_services(settings) as services, agent(settings) as process:
        process.grown("a")
        wait_until(lambda: len(texts(services.store)) == 1)
        standin.script(Scripted(kind="message", no_content=True))
        process.publish(process.session("b"), rounds_of(14, canary="another"))
        wait_until(lambda: len(texts(services.store)) == 2)
        once, twice = (row["reserved_picodollars"] for row in rows(services.store, spend))
        assert twice > 1.5 * once
        assert settled(services.store) == billed(standin.ledger("message"))


def test_a_session_whose_budget_is_left_after_one_answer_gets_no_second(
    settings: Settings, standin: RunningStandIn
) -> None:
    with claude_services(settings) as services, agent(settings) as process:
        process.grown("a")
        wait_until(lambda: len(texts(services.store)) == 1)
        (row,) = rows(services.store, spend)
        budget = 1.5 * row["reserved_picodollars"] / PICO_PER_USD
        standin.script(Scripted(kind="message", no_content=True))
        process.publish(process.session("b", max_cost_per_session_usd=budget), rounds_of(14, canary="x"))
        wait_until(lambda: events_of(services.store, "compaction_failed"))
        assert len(standin.ledger("message")) == 2
        (event,) = events_of(services.store, "compaction_failed")
        assert event["failure_mode"] == "validation_failed"
        assert settled(services.store) == billed(standin.ledger("message"))


def test_a_lease_that_died_counts_at_its_upper_bound(settings: Settings, standin: RunningStandIn) -> None:
    standin.script(Scripted(first_byte_s=30.0))
    with claude_services(settings) as services, agent(settings) as process:
        process.grown()
        wait_until(lambda: standin.ledger("message"))
        # As the sweeper does when a worker's heart has stopped.
        from foldahead_worker.clock import now_ms
        from foldahead_worker.store.leases import expire, leases

        (seen,) = leases(services.store)
        assert expire(services.store, seen, now_ms()) == "queued"
        first = next(row for row in rows(services.store, spend) if row["token"] == 1)
        assert first["settled_picodollars"] == first["reserved_picodollars"] > 0


def test_the_report_is_by_session_and_says_what_it_is_for(settings: Settings, standin: RunningStandIn) -> None:
    with claude_services(settings) as services, agent(settings) as process:
        process.grown()
        ended_job(services.store)
        report = report_spend(services.store, workspace="acme", session="s")
        assert (report.rows[0].kind, report.rows[0].pricing_mode) == ("text", "compaction")
        assert report.picodollars == billed(standin.ledger("message"))
        assert report_spend(services.store, session="another").rows == ()


def test_the_dear_band_is_priced_as_such() -> None:
    model = find_model("claude-haiku-5-5")
    assert model is not None
    cheap, dear = model.price_at(100_000), model.price_at(100_001)
    assert cheap is not None
    assert dear is not None
    assert cheap.picodollars(input_tokens=1, output_tokens=1) == 600_000
    assert dear.picodollars(input_tokens=1, output_tokens=1) == 3_000_000


def test_cache_tokens_have_prices_of_their_own() -> None:
    price = Price(2, 10, 0.10, 2.50)
    assert price.picodollars(cache_read_tokens=1) == 100_000
    assert price.picodollars(cache_write_tokens=1) == 2_500_000
    assert price.picodollars(cache_write_1h_tokens=1) == 4_000_000


@pytest.mark.parametrize(
    "spelling",
    [
        "anthropic:claude-haiku-4-5",
        "claude-haiku-4-5-20251001",
        "bedrock:us.anthropic.claude-haiku-4-5-20251001-v1:0",
        "vertex:claude-haiku-4-5@20251001",
        "anthropic:anthropic/claude-haiku-4.5",
    ],
)
def test_a_model_is_known_under_every_providers_spelling(spelling: str) -> None:
    assert find_model(spelling) == find_model("claude-haiku-4-5")


def test_a_name_that_only_begins_like_a_known_one_is_unknown() -> None:
    assert find_model("anthropic:claude-haiku-5-5-turbo") is None


def test_an_operator_adds_a_model_in_a_file(settings: Settings, tmp_path) -> None:
    nova = Model(window_tokens=500_000, price=Price(1, 2, 0.1, 1.25))
    path = tmp_path / "models.json"
    path.write_bytes(json.encode({"claude-nova-9": nova}))
    read = read_settings({"FOLDAHEAD_MODELS_FILE": str(path)})
    assert find_model("anthropic:claude-nova-9", read.models) == nova


def test_a_file_of_models_that_cannot_be_read_is_refused_at_start(tmp_path) -> None:
    path = tmp_path / "models.json"
    path.write_text('{"claude-nova-9": {"window_tokens": "big"}}')
    with pytest.raises(InvalidSettings, match="FOLDAHEAD_MODELS_FILE"):
        read_settings({"FOLDAHEAD_MODELS_FILE": str(path)})


def test_a_session_with_an_unknown_model_gets_rules_and_no_call(
    settings: Settings, standin: RunningStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    with claude_services(settings) as services, agent(settings) as process:
        process.grown(model="anthropic:claude-nova-9")
        ended_job(services.store)
        assert the_job(services.store)["kind"] == "extract"
        assert not standin.ledger("message")
    assert any("FOLDAHEAD_MODELS_FILE" in record.message for record in caplog.records)
