"""The doctor finds what was planted, says what to do, and finds nothing where nothing is wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis
from sqlalchemy import update

from foldahead import keys
from foldahead_worker.clock import now_ms
from foldahead_worker.doctor import rules
from foldahead_worker.doctor.finding import Finding
from foldahead_worker.doctor.visit import Visit
from foldahead_worker.embedded.redis_server import EmbeddedRedis, find_server_binary
from foldahead_worker.library import LIBRARY_VERSION, load, source
from foldahead_worker.server import connect
from foldahead_worker.settings import Settings, environment_for
from foldahead_worker.store import open_store
from foldahead_worker.store.jobs import want
from foldahead_worker.store.schema import SCHEMA_VERSION, schema_version
from tests.free_port import free_port
from tests.guarded_redis import guarded_redis
from tests.lying_front import lying_front
from tests.stores import a_request, a_want
from tests.waiting import wait_until

KEY = "sk-" + "a" * 40


class Patient:
    """A service in which all is well, to plant a fault in."""

    def __init__(self, server: EmbeddedRedis, settings: Settings) -> None:
        self.server = server
        self.settings = settings
        self.workers: list[str] | None = ["foldahead@here"]
        self.now_ms = now_ms()

    def client(self) -> "redis.Redis":
        return connect(self.server.url)

    def findings(self, **changed: Any) -> list[Finding]:
        return Visit(msgspec.structs.replace(self.settings, **changed), self.workers, self.now_ms).findings()

    def wrong(self, **changed: Any) -> dict[str, str]:
        """What is wrong, and what to do, by what it is about."""
        found = [finding for finding in self.findings(**changed) if finding.grade == "bad"]
        return {finding.about: f"{finding.said} -> {finding.advice}" for finding in found}


@pytest.fixture
def patient(tmp_path: Path, database_url: str) -> Iterator[Patient]:
    with EmbeddedRedis(tmp_path / "redis", persistent=True) as server:
        settings = Settings(
            redis_url=server.url,
            broker_url=server.url,
            database_url=database_url,
            anthropic_api_key=KEY,
        )
        open_store(settings.database_url).close()
        with connect(server.url, "watch") as watcher:
            load(watcher)
            yield Patient(server, settings)


def test_nothing_is_found_where_nothing_is_wrong(patient: Patient) -> None:
    assert [finding for finding in patient.findings() if finding.grade != "ok"] == []


def test_1_a_redis_that_is_not_there(patient: Patient) -> None:
    patient.server.kill()
    assert "start it" in patient.wrong()["redis"]


def test_2_a_redis_that_is_too_old(patient: Patient) -> None:
    with lying_front(patient.server.port, b"valkey_version:9.1.2", b"valkey_version:7.2.1") as port:
        wrong = patient.wrong(redis_url=f"redis://127.0.0.1:{port}/0")
    assert "7.2.1" in wrong["redis version"]
    assert "upgrade it" in wrong["redis version"]


def test_3_a_redis_that_evicts(patient: Patient) -> None:
    with patient.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    assert "CONFIG SET maxmemory-policy noeviction" in patient.wrong()["eviction"]


def test_4_a_redis_that_keeps_nothing(patient: Patient) -> None:
    with patient.client() as client:
        client.config_set("appendonly", "no")
        client.config_set("save", "")
    assert "appendonly yes" in patient.wrong()["persistence"]


def test_5_functions_that_are_not_loaded(patient: Patient) -> None:
    with patient.client() as client:
        client.function_flush()
    assert "foldahead watch" in patient.wrong()["function library"]


def test_6_functions_of_a_newer_foldahead(patient: Patient) -> None:
    newer = source().replace(f"-- version: {LIBRARY_VERSION}", f"-- version: {LIBRARY_VERSION + 1}")
    with patient.client() as client:
        client.function_load(newer, replace=True)
    assert "upgrade foldahead" in patient.wrong()["function library"]


def test_7_a_clock_that_is_off(patient: Patient) -> None:
    patient.now_ms += 90_000
    assert "90.0 s behind" in patient.wrong()["clock"]


def test_8_a_database_that_is_not_there(patient: Patient) -> None:
    wrong = patient.wrong(database_url="postgresql://someone:secret@127.0.0.1:1/foldahead")
    assert "FOLDAHEAD_DATABASE_URL" in wrong["database"]
    assert "secret" not in wrong["database"]


def test_9_tables_that_are_too_old_or_too_new(patient: Patient) -> None:
    store = open_store(patient.settings.database_url)
    for version, advice in ((-1, "foldahead db upgrade"), (SCHEMA_VERSION + 1, "upgrade foldahead")):
        with store.writing() as connection:
            connection.execute(update(schema_version).values(version_num=f"{version:04}"))
        assert advice in patient.wrong()["database"]
    store.close()


def test_10_a_model_without_a_price(patient: Patient) -> None:
    store = open_store(patient.settings.database_url)
    want(store, a_want(request=a_request(model="anthropic:claude-nobody-9")), now_ms())
    store.close()
    assert "FOLDAHEAD_MODELS_FILE" in patient.wrong()["model"]


def test_11_a_key_that_was_copied_with_its_quotes_or_cut_off(patient: Patient) -> None:
    assert "write it again" in patient.wrong(anthropic_api_key=f'{KEY}"\n')["keys"]
    assert "whole" in patient.wrong(anthropic_api_key=KEY[:9])["keys"]


def test_12_no_worker(patient: Patient) -> None:
    patient.workers = []
    assert "foldahead work" in patient.wrong()["workers"]


def test_13_no_watcher(patient: Patient) -> None:
    with patient.client() as client:
        client.client_kill_filter(skipme=True, _type="normal")
    assert "foldahead watch" in patient.wrong()["watchers"]


def test_14_the_password_of_an_agent(patient: Patient, tmp_path: Path) -> None:
    (tmp_path / "guarded").mkdir()
    with guarded_redis(tmp_path / "guarded") as guarded:
        with guarded.client(guarded.server_url) as server:
            load(server)
        as_agent = patient.wrong(redis_url=guarded.agent_url)
        as_server = patient.wrong(redis_url=guarded.server_url)
    assert "deploy/redis-servers.acl" in as_agent["rights"]
    assert "rights" not in as_server


def test_15_a_cluster(patient: Patient, tmp_path: Path) -> None:
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--save", ""]
    command = [str(find_server_binary()), *options, "--dir", str(tmp_path), "--cluster-port", str(free_port())]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        with redis.Redis(port=port) as client:
            wait_until(lambda: can_be_reached(client))
        wrong = patient.wrong(redis_url=f"redis://127.0.0.1:{port}/0")
        process.terminate()
    assert "single server" in wrong["redis mode"]


def test_16_work_that_is_not_done(patient: Patient) -> None:
    store = open_store(patient.settings.database_url)
    want(store, a_want(), now_ms() - 120_000)
    store.close()
    assert "no worker takes it" in patient.wrong()["work"]


def test_17_processes_of_another_version(patient: Patient) -> None:
    with redis.Redis(port=patient.server.port, client_name="foldahead-watch/0.0.9") as old:
        old.ping()
        assert "run one version everywhere" in patient.wrong()["watchers"]


def test_18_a_workspace_whose_account_was_refused(patient: Patient) -> None:
    with patient.client() as client:
        client.hset(keys.STOPPED_HASH, "acme", "0123456789abcdef HTTP 401")
    wrong = patient.wrong(anthropic_api_key="")
    assert "acme" in wrong["accounts"]


def test_19_anybody_who_reaches_redis_comes_in() -> None:
    assert rules.on_strangers(let_in=True, is_loopback=False).grade == "bad"
    assert rules.on_strangers(let_in=True, is_loopback=True).grade == "ok"


def test_prices_that_are_old_are_said_and_are_no_fault() -> None:
    assert rules.on_prices(date(2027, 12, 1)).grade == "warn"


def test_an_agent_of_another_version_is_said_and_is_no_fault(patient: Patient) -> None:
    with redis.Redis(port=patient.server.port, client_name="foldahead-agent/0.9.1") as agent:
        agent.ping()
        found = {finding.about: finding for finding in patient.findings()}
    assert found["agents"].grade == "warn"
    assert "0.9.1" in found["agents"].said


@pytest.fixture
def command(patient: Patient) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command itself, as a process."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "foldahead_worker.cli", *arguments],
            env=environment_for(patient.settings, os.environ),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_the_command_ends_with_status_1_and_names_what_is_wrong(
    command: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    ran = command("doctor", "--json")
    said = json.loads(ran.stdout)
    assert ran.returncode == 1
    assert [finding["about"] for finding in said["findings"] if finding["grade"] == "bad"] == ["workers"]
    assert KEY not in ran.stdout + ran.stderr


def test_health_ends_with_status_1_when_a_job_is_late(
    patient: Patient, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    assert command("health").returncode == 0
    store = open_store(patient.settings.database_url)
    want(store, a_want(), now_ms() - 61_000)
    store.close()
    ran = command("health")
    assert ran.returncode == 1
    assert "no worker takes it" in ran.stdout


def can_be_reached(client: "redis.Redis") -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
