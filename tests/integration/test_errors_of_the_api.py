"""Each error and each bad answer of the API, through the whole server side: what becomes of job, session and events."""

import socket
import time
from typing import Any

import pytest

from foldahead_worker.clock import now_ms
from foldahead_worker.settings import Settings, accounts_of
from foldahead_worker.standin import RunningStandIn, Scripted, ToolCall
from foldahead_worker.store.leases import expire, leases
from foldahead_worker.store.schema import jobs, spend
from tests.claude import (
    MODEL,
    ClaudeServices,
    agent,
    claude_services,
    ended_job,
    events_of,
    rounds_of,
    rows,
    settings,
    settings_for,
    texts,
    the_job,
)
from tests.waiting import wait_until

pytest_plugins = ["tests.standin_fixtures"]
__all__ = ["settings"]

GOOD = Scripted(text="The user wants the parts read, and never touches prod.")


def after_one_job(settings: Settings, standin: RunningStandIn, *script: Scripted, **policy: Any) -> "Aftermath":
    """What is to be seen once the one job of a session has ended."""
    standin.script(*script)
    with claude_services(settings) as services, agent(settings) as process:
        process.grown(**policy)
        return Aftermath(services, standin)


class Aftermath:
    """The end of a job, read before the services stop."""

    def __init__(self, services: ClaudeServices, standin: RunningStandIn) -> None:
        self.job = ended_job(services.store)
        wait_until(lambda: events_of(services.store, "compaction_failed") or texts(services.store))
        self.texts = texts(services.store)
        self.failures = events_of(services.store, "compaction_failed")
        self.calls = len(standin.ledger("message"))


@pytest.mark.parametrize("status", [400, 404, 422])
def test_an_error_that_does_not_heal_is_not_tried_again(
    settings: Settings, standin: RunningStandIn, status: int
) -> None:
    after = after_one_job(settings, standin, Scripted(status=status, times=None))
    assert after.job["state"] == "failed"
    assert after.job["attempts"] == 1
    assert after.calls == 1
    assert [event["failure_mode"] for event in after.failures] == ["adapter_error"]


def test_too_large_in_any_size_is_not_tried_again(settings: Settings, standin: RunningStandIn) -> None:
    after = after_one_job(settings, standin, Scripted(status=413, times=None))
    assert after.job["state"] == "failed"
    assert after.job["attempts"] == 1


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 504, 529])
def test_an_error_that_heals_is_tried_again_later(settings: Settings, standin: RunningStandIn, status: int) -> None:
    after = after_one_job(settings, standin, Scripted(status=status, retry_after_s=1.0), GOOD)
    assert after.job["state"] == "done"
    assert after.calls == 2
    assert not after.failures


def test_an_error_that_never_heals_fails_after_its_attempts(settings: Settings, standin: RunningStandIn) -> None:
    after = after_one_job(settings, standin, Scripted(status=500, times=None), max_attempts=2)
    assert after.job["state"] == "failed"
    assert after.calls == 2
    assert [event["error_class"] for event in after.failures] == ["api_error"]


def test_a_stream_that_breaks_is_not_stored_and_tried_again(settings: Settings, standin: RunningStandIn) -> None:
    after = after_one_job(settings, standin, Scripted(text="Half of", break_after_events=4), GOOD)
    assert after.job["state"] == "done"
    assert after.calls == 2
    assert len(after.texts) == 1
    assert after.texts[0].startswith("The user wants the parts read")


def test_an_error_event_after_200_is_judged_by_its_type(settings: Settings, standin: RunningStandIn) -> None:
    broken = Scripted(text="Half of", error_after_events=4, error_type="overloaded_error")
    after = after_one_job(settings, standin, broken, GOOD)
    assert after.job["state"] == "done"
    assert after.calls == 2


def test_an_error_event_that_does_not_heal_is_not_tried_again(settings: Settings, standin: RunningStandIn) -> None:
    broken = Scripted(text="Half of", error_after_events=4, error_type="invalid_request_error")
    after = after_one_job(settings, standin, broken)
    assert after.job["state"] == "failed"
    assert after.calls == 1


def test_a_provider_that_is_not_there_is_tried_again_and_nothing_is_charged(
    settings: Settings, standin: RunningStandIn
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    nowhere = settings_for(
        settings.redis_url, settings.database_url, standin, ANTHROPIC_BASE_URL=f"http://127.0.0.1:{port}"
    )
    with claude_services(nowhere) as services, agent(nowhere) as process:
        process.grown(max_attempts=1)
        assert ended_job(services.store)["state"] == "failed"
        assert [row["settled_picodollars"] for row in rows(services.store, spend)] == [0]


def test_a_long_retry_after_frees_the_worker_at_once(settings: Settings, standin: RunningStandIn) -> None:
    standin.script(Scripted(status=429, retry_after_s=7_200))
    with claude_services(settings) as services, agent(settings) as process:
        process.grown()
        wait_until(lambda: standin.ledger("message"))
        begun_s = time.monotonic()
        wait_until(lambda: the_job(services.store)["state"] == "queued")
        assert time.monotonic() - begun_s < 1
        left_ms = the_job(services.store)["not_before_ms"] - time.time() * 1000
        assert 7_100_000 < left_ms <= 7_200_000
        assert len(standin.ledger("message")) == 1


# -- answers that are never stored ---------------------------------------------------------------------------------

BAD = {
    "empty": Scripted(text="  \n "),
    "nothing": Scripted(no_content=True),
    "cut_off": Scripted(text="The user wants all of it to be read, and then", stop_reason="max_tokens"),
    "window": Scripted(
        text="The user wants all of it to be read, and then", stop_reason="model_context_window_exceeded"
    ),
    "refused": Scripted(text="The user wants", stop_reason="refusal"),
    "tool call": Scripted(tool_calls=(ToolCall("read_file", {"path": "a"}),)),
    "markup": Scripted(text='<tool_calls>[{"name": "read_file", "arguments": {}}]</tool_calls>'),
    "about the request": Scripted(text="I'm sorry, but I can't see a conversation to summarise."),
    "too long": Scripted(text="wordy " * 2_600),
}
REASONS = {
    "empty": "empty",
    "nothing": "empty",
    "cut_off": "cut_off",
    "window": "cut_off",
    "refused": "refused",
    "tool call": "not_prose",
    "markup": "not_prose",
    "about the request": "about_the_request",
    "too long": "not_smaller",
}


def twice(bad: Scripted) -> tuple[Scripted, Scripted]:
    return (bad, bad)


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_answer_twice_is_never_stored(settings: Settings, standin: RunningStandIn, kind: str) -> None:
    after = after_one_job(settings, standin, *twice(BAD[kind]), summary_max_tokens=4_000)
    assert after.texts == []
    assert after.job["state"] == "failed"
    assert after.job["reason"] == REASONS[kind]
    assert [(event["failure_mode"], event["error_message"]) for event in after.failures] == [
        ("validation_failed", REASONS[kind])
    ]
    assert after.calls == 2


@pytest.mark.parametrize("kind", BAD)
def test_a_good_answer_to_the_one_retry_is_stored(settings: Settings, standin: RunningStandIn, kind: str) -> None:
    good = Scripted(text="Never touch prod.")
    after = after_one_job(settings, standin, BAD[kind], good, summary_max_tokens=4_000)
    assert after.job["state"] == "done"
    assert after.texts[0].startswith("Never touch prod.")
    assert after.calls == 2


def test_the_retry_asks_for_fewer_words(settings: Settings, standin: RunningStandIn) -> None:
    standin.script(BAD["empty"], GOOD)
    with claude_services(settings) as services, agent(settings) as process:
        process.grown()
        ended_job(services.store)
        first, second = (standin.request(call.n)["system"] for call in standin.ledger("message"))
    assert "could not be used" not in first
    assert "could not be used" in second


def test_a_retry_that_is_longer_than_what_was_too_long_is_not_stored(
    settings: Settings, standin: RunningStandIn
) -> None:
    short_but_cut = Scripted(text="The user", stop_reason="max_tokens")
    after = after_one_job(settings, standin, short_but_cut, Scripted(text="The user wants more than before."))
    assert after.texts == []


def test_both_attempts_are_paid_for_in_the_books(settings: Settings, standin: RunningStandIn) -> None:
    standin.script(*twice(BAD["empty"]))
    with claude_services(settings) as services, agent(settings) as process:
        process.grown()
        ended_job(services.store)
        billed = sum(call.input_tokens + call.output_tokens for call in standin.ledger("message"))
        (row,) = rows(services.store, spend)
        assert row["input_tokens"] + row["output_tokens"] == billed


# -- accounts that are refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 402, 403])
def test_a_refused_account_stops_its_workspace_with_one_alarm(
    settings: Settings, standin: RunningStandIn, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    standin.script(Scripted(status=status, times=None))
    with claude_services(settings) as services, agent(settings) as process:
        for name in ("a", "b", "c"):
            process.publish(process.session(name), rounds_of(14, canary=name))
        wait_until(lambda: services.gate.stopped_workspaces() == ("acme",))
        wait_until(lambda: len(services.wakeups) >= 6, timeout_s=20)  # all were woken for, and woken for again
        assert len(standin.ledger("message")) <= 3  # those that were under way when the first was refused
    assert sum("ALARM" in record.message for record in caplog.records) == 1


def test_other_workspaces_go_on(settings: Settings, standin: RunningStandIn) -> None:
    with claude_services(settings) as services, agent(settings) as process:
        services.gate.stop("acme", _account(settings), "401")
        process.publish(process.session("a"), rounds_of(14, canary="a"))
        process.publish(process.session("b", workspace="other"), rounds_of(14, canary="b"))
        wait_until(lambda: texts(services.store))
        assert len(standin.ledger("message")) == 1


def test_an_operator_lets_a_workspace_go_on(settings: Settings, standin: RunningStandIn) -> None:
    standin.script(Scripted(status=401))
    with claude_services(settings) as services, agent(settings) as process:
        process.grown()
        wait_until(services.gate.stopped_workspaces)
        assert services.gate.resume("acme")
        assert ended_job(services.store)["state"] == "done"


def test_a_workspace_goes_on_when_its_key_changes(settings: Settings, standin: RunningStandIn) -> None:
    changed = settings_for(settings.redis_url, settings.database_url, standin, ANTHROPIC_API_KEY="another-key")
    with claude_services(changed) as services, agent(changed) as process:
        services.gate.stop("acme", _account(settings), "401")
        process.grown()
        assert ended_job(services.store)["state"] == "done"
        assert services.gate.stopped() == ()


def test_a_spend_limit_of_the_account_stops_its_workspace(settings: Settings, standin: RunningStandIn) -> None:
    standin.script(Scripted(status=429, error_code="contract_spend_limit_reached", times=None))
    with claude_services(settings) as services, agent(settings) as process:
        process.grown()
        wait_until(services.gate.stopped_workspaces)
        assert len(standin.ledger("message")) == 1


def _account(settings: Settings) -> str:
    account = accounts_of(settings).find("acme", "anthropic")
    assert account is not None
    return account.name


def test_a_key_is_in_no_name_that_redis_or_a_log_shows(settings: Settings) -> None:
    account = accounts_of(settings).find("acme", "anthropic")
    assert "test-key" not in repr(account)
    assert "test-key" not in _account(settings)
    assert "test-key" not in repr(settings)


# -- outages -------------------------------------------------------------------------------------------------------


def test_an_outage_is_ridden_out_with_few_calls_and_nothing_is_lost(
    settings: Settings, standin: RunningStandIn
) -> None:
    standin.script(Scripted(status=529, times=None))
    with claude_services(settings) as services, agent(settings) as process:
        for at in range(12):
            process.publish(process.session(f"s{at}"), rounds_of(14, canary=f"only{at}"))
        wait_until(lambda: len(standin.ledger("message")) >= 5)
        wait_until(lambda: [row for row in rows(services.store, jobs) if row["reason"] == "provider_open"])
        during = len(standin.ledger("message"))
        standin.clear_script()
        wait_until(lambda: len(texts(services.store)) == 12, timeout_s=40)
        assert during <= 10  # as many as are under way at once, and since then a probe or two on a slow machine
        assert len(standin.ledger("message")) <= during + 13
        assert not events_of(services.store, "compaction_failed")


def test_a_job_that_the_breaker_refuses_spends_no_attempt(settings: Settings, standin: RunningStandIn) -> None:
    with claude_services(settings) as services, agent(settings) as process:
        for _ in range(5):
            services.gate.report(_account(settings), MODEL, "failed")
        process.grown()
        wait_until(lambda: [row for row in rows(services.store, jobs) if row["reason"] == "provider_open"])
        assert the_job(services.store)["attempts"] == 0
        assert not standin.ledger("message")


def test_a_probe_that_fails_spends_no_attempt(settings: Settings, standin: RunningStandIn) -> None:
    standin.script(Scripted(status=529, times=None))
    with claude_services(settings) as services, agent(settings) as process:
        for _ in range(5):
            services.gate.report(_account(settings), MODEL, "failed")
        process.grown()
        wait_until(lambda: standin.ledger("message"), timeout_s=20)
        wait_until(lambda: the_job(services.store)["state"] == "queued")
        assert the_job(services.store)["attempts"] == 0


# -- leases that are lost during a call ------------------------------------------------------------------------------


def test_a_late_answer_is_stored_and_nobody_pays_again(settings: Settings, standin: RunningStandIn) -> None:
    standin.script(Scripted(first_byte_s=1.5, text="The user wants the parts read."))
    with claude_services(settings) as services, agent(settings) as process:
        process.grown()
        wait_until(lambda: standin.ledger("message"))
        (seen,) = leases(services.store)
        services.gate.stop("acme", _account(settings), "so that nobody leases it meanwhile")
        expire(services.store, seen, now_ms())
        wait_until(lambda: texts(services.store))
        services.gate.resume("acme")
        assert ended_job(services.store)["state"] == "done"
        assert len(standin.ledger("message")) == 1
