"""The gate: breaker and buckets of an account, shared by all workers through a real Redis."""

import time
from collections.abc import Iterator

import pytest
import redis

from foldahead import keys
from foldahead_worker.gate import Admission, Gate
from foldahead_worker.library import LIMITS_NAME, load, loaded_code, source
from foldahead_worker.summarizers.accounts import Accounts, Providers, Secret
from foldahead_worker.summarizers.protocol import Forecast, Limit
from tests.waiting import wait_until

MODEL = "anthropic:claude-haiku-5-5"
SMALL = Forecast(calls=1, input_tokens=1_000, output_tokens=100)
ACCOUNT = Accounts(Providers(anthropic_key=Secret("k")))


@pytest.fixture
def client(redis_url: str) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(redis_url) as opened:
        load(opened)
        yield opened


@pytest.fixture
def gate(client: "redis.Redis") -> Gate:
    return Gate(client, ACCOUNT)


def admit(gate: Gate, forecast: Forecast = SMALL) -> Admission:
    return gate.admit("account", MODEL, forecast)


def break_down(gate: Gate) -> None:
    for _ in range(5):
        gate.report("account", MODEL, "failed")


def end_of_pause(client: "redis.Redis") -> None:
    """As if the breaker's pause were over."""
    client.hset(keys.account("account/claude-haiku-5-5"), "until_ms", 1)


def limits(requests: tuple[int, int], tokens: tuple[int, int] = (1_000_000, 1_000_000)) -> list[Limit]:
    return [Limit("requests", *requests), Limit("input", *tokens)]


def test_the_library_of_limits_is_loaded_beside_the_other(client: "redis.Redis") -> None:
    assert loaded_code(client, LIMITS_NAME) == source(LIMITS_NAME)


def test_it_is_loaded_again_after_a_restart(client: "redis.Redis", gate: Gate) -> None:
    client.function_flush()
    assert admit(gate).granted


def test_an_unknown_account_is_let_through(gate: Gate) -> None:
    assert admit(gate).granted


def test_a_few_failures_do_not_open_the_breaker(gate: Gate) -> None:
    for _ in range(4):
        gate.report("account", MODEL, "failed")
    assert admit(gate).granted


def test_an_answer_in_between_starts_the_count_anew(gate: Gate) -> None:
    for _ in range(4):
        gate.report("account", MODEL, "failed")
    gate.report("account", MODEL, "answered")
    gate.report("account", MODEL, "failed")
    assert admit(gate).granted


def test_a_run_of_failures_opens_it_for_all(client: "redis.Redis", gate: Gate) -> None:
    break_down(gate)
    refused = admit(Gate(client, ACCOUNT))
    assert not refused.granted
    assert refused.why == "open"
    assert 4 < refused.wait_s < 16


def test_other_models_of_the_account_are_not_concerned(gate: Gate) -> None:
    break_down(gate)
    assert gate.admit("account", "anthropic:claude-opus-5-5", SMALL).granted


def test_after_its_pause_one_probe_is_let_through_and_no_other(client: "redis.Redis", gate: Gate) -> None:
    break_down(gate)
    end_of_pause(client)
    first, second = admit(gate), admit(gate)
    assert first.is_probe
    assert (second.granted, second.why) == (False, "probing")


def test_a_probe_that_fails_opens_it_for_longer(client: "redis.Redis", gate: Gate) -> None:
    break_down(gate)
    end_of_pause(client)
    admit(gate)
    gate.report("account", MODEL, "failed")
    assert 9 < admit(gate).wait_s < 21


def test_a_probe_that_was_given_up_lets_another_one_through(client: "redis.Redis", gate: Gate) -> None:
    break_down(gate)
    end_of_pause(client)
    admit(gate)
    gate.report("account", MODEL, "given_up")
    assert admit(gate).is_probe


def test_a_probe_that_is_answered_lets_the_others_in_few_by_few(client: "redis.Redis", gate: Gate) -> None:
    break_down(gate)
    end_of_pause(client)
    admit(gate)
    gate.report("account", MODEL, "answered")
    at_once = sum(admit(gate).granted for _ in range(100))
    assert 1 <= at_once <= 4


def test_those_who_are_refused_come_back_one_after_the_other(gate: Gate) -> None:
    break_down(gate)
    waits = [admit(gate).wait_s for _ in range(20)]
    assert len({round(wait, 2) for wait in waits}) >= 15


def test_a_limit_closes_the_account_for_as_long_as_it_says(gate: Gate) -> None:
    gate.report("account", MODEL, "limited", retry_after_s=7_200)
    assert 7_190 < admit(gate).wait_s < 7_211


def test_a_late_answer_does_not_lift_a_limit(gate: Gate) -> None:
    gate.report("account", MODEL, "limited", retry_after_s=7_200)
    gate.report("account", MODEL, "answered")
    assert not admit(gate).granted


def test_requests_a_minute_are_learned_from_a_response(gate: Gate) -> None:
    gate.report("account", MODEL, "answered", limits=limits((50, 2)))
    granted = [admit(gate).granted for _ in range(3)]
    assert granted == [True, True, False]


def test_tokens_a_minute_are_learned_from_a_response(gate: Gate) -> None:
    gate.report("account", MODEL, "answered", limits=limits((50, 50), (40_000, 1_500)))
    assert admit(gate).granted
    refused = admit(gate)
    assert refused.why == "rate"
    assert 0.5 < refused.wait_s < 2


def test_a_bucket_fills_again(gate: Gate) -> None:
    gate.report("account", MODEL, "answered", limits=limits((600, 0)))
    assert not admit(gate).granted
    wait_until(lambda: admit(gate).granted, timeout_s=2)


def test_a_job_that_is_larger_than_the_bucket_waits_for_a_full_one_only(gate: Gate) -> None:
    gate.report("account", MODEL, "answered", limits=limits((50, 50), (40_000, 40_000)))
    assert admit(gate, Forecast(calls=1, input_tokens=90_000, output_tokens=100)).granted


def test_workers_share_one_bucket(client: "redis.Redis", gate: Gate) -> None:
    gate.report("account", MODEL, "answered", limits=limits((50, 3)))
    gates = [Gate(client, ACCOUNT) for _ in range(10)]
    assert sum(admit(each).granted for each in gates) == 3


def test_the_first_to_stop_a_workspace_raises_the_alarm(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    assert gate.stop("acme", "account", "401")
    assert not gate.stop("acme", "account", "401")
    assert len(caplog.records) == 1


def test_another_account_of_a_stopped_workspace_is_another_alarm(gate: Gate) -> None:
    gate.stop("acme", "account", "401")
    assert gate.stop("acme", "another", "401")


def test_every_key_of_the_gate_has_an_end(client: "redis.Redis", gate: Gate) -> None:
    gate.report("account", MODEL, "failed")
    gate.stop("acme", "account", "401")
    assert all(client.ttl(key) > 0 for key in client.keys("*"))


def test_it_takes_little_time(gate: Gate) -> None:
    gate.report("account", MODEL, "answered", limits=limits((50, 50)))
    begun_s = time.monotonic()
    for _ in range(100):
        admit(gate)
    assert time.monotonic() - begun_s < 1
