"""The figures of a server process, and its health, over a real Redis and a real database."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from foldahead import Foldahead, keys
from foldahead_worker.clock import now_ms
from foldahead_worker.library import load
from foldahead_worker.metrics import Metrics
from foldahead_worker.page import Page, PageTaken, Vitals
from foldahead_worker.readings import take_reading
from foldahead_worker.server import Loop, connect
from foldahead_worker.store import Store, open_store
from foldahead_worker.store.jobs import want
from foldahead_worker.switchboard import Switchboard
from tests.conversations import POLICY, opening, take_turns
from tests.services import Services, running_services
from tests.stores import a_want
from tests.waiting import wait_until


@pytest.fixture
def services(redis_url: str, database_url: str) -> Iterator[Services]:
    with running_services(redis_url, database_url) as running:
        yield running


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every sample by its name and the sorted values of its labels, buckets left out."""
    return {
        (sample.name, tuple(sorted(sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


def play(redis_url: str, services: Services, name: str = "s", turns: int = 20) -> None:
    """One session from its first turn to past its swap, each turn waiting until what it asked for is there."""
    fold = Foldahead(redis_url)
    session = fold.session(name, workspace="acme", policy=POLICY)
    take_turns(session, services.client, turns, opening())
    session.flush(5)
    fold.close()


def test_a_session_that_is_compacted_shows_in_the_figures(services: Services, redis_url: str) -> None:
    play(redis_url, services)
    wait_until(lambda: services.switchboard.figures.counts().inbox_lag == 0)
    vitals = Vitals(lambda: take_reading(services.store, services.switchboard), services.metrics, 60.0)
    vitals.measure()
    with Page("127.0.0.1", 0, services.metrics, vitals) as page:
        wait_until(lambda: ("foldahead_swap_outcomes_total", ("ready",)) in samples(get(page.port, "/metrics")[1]))
        shown = samples(get(page.port, "/metrics")[1])

    assert shown["foldahead_swap_outcomes_total", ("ready",)] >= 1
    assert shown["foldahead_answers_total", ("made",)] >= 1
    assert shown["foldahead_crossing_to_ready_seconds_count", ("extract",)] >= 1
    assert shown["foldahead_crossing_to_ready_seconds_sum", ("extract",)] < 5
    assert shown["foldahead_look_delay_seconds_count", ()] >= 1
    assert shown["foldahead_summary_seconds_count", ("extract", "extract")] >= 1
    assert shown["foldahead_summary_tokens_total", ("extract", "extract", "input")] == 0
    assert shown["foldahead_jobs", ("queued",)] == 0
    assert shown["foldahead_oldest_due_job_seconds", ()] == 0


def test_a_summary_that_another_session_made_counts_as_from_the_cache(services: Services, redis_url: str) -> None:
    play(redis_url, services, "first")
    made = services.metrics.registry.get_sample_value("foldahead_answers_total", {"source": "made"})
    play(redis_url, services, "second")

    assert services.metrics.registry.get_sample_value("foldahead_answers_total", {"source": "made"}) == made
    assert services.metrics.registry.get_sample_value("foldahead_answers_total", {"source": "cache"})


def test_no_session_and_no_workspace_is_named_on_the_page(services: Services, redis_url: str) -> None:
    play(redis_url, services, "zebracanary")
    vitals = Vitals(lambda: take_reading(services.store, services.switchboard), services.metrics, 60.0)
    with Page("127.0.0.1", 0, services.metrics, vitals) as page:
        shown = get(page.port, "/metrics")[1]

    assert "zebracanary" not in shown
    assert "acme" not in shown


@pytest.fixture
def idle(redis_url: str, database_url: str) -> Iterator[tuple[Store, Switchboard]]:
    """A database and a Redis that nobody works on."""
    store = open_store(database_url)
    client = connect(redis_url)
    load(client)
    yield store, Switchboard(client)
    client.close()
    store.close()


@pytest.fixture
def health(idle: tuple[Store, Switchboard]) -> Iterator[Callable[..., tuple[int, str]]]:
    """What `/health` says after one measurement, with these loops."""
    pages: list[Page] = []

    def ask(*loops: Loop) -> tuple[int, str]:
        vitals = Vitals(lambda: take_reading(*idle, loops), Metrics(), due_limit_s=60.0)
        vitals.measure()
        page = Page("127.0.0.1", 0, Metrics(), vitals)
        page.start()
        pages.append(page)
        return get(page.port, "/health")

    yield ask
    for page in pages:
        page.stop()


def test_a_service_without_work_is_healthy(health: Callable[..., tuple[int, str]]) -> None:
    assert health() == (200, "ok\n")


def test_a_job_that_nobody_takes_makes_the_service_unhealthy(
    idle: tuple[Store, Switchboard], health: Callable[..., tuple[int, str]]
) -> None:
    want(idle[0], a_want(), now_ms() - 61_000)
    status, said = health()
    assert status == 503
    assert "no worker takes it" in said


def test_a_job_that_is_due_later_is_no_fault(
    idle: tuple[Store, Switchboard], health: Callable[..., tuple[int, str]]
) -> None:
    want(idle[0], a_want(), now_ms() + 3_600_000)
    assert health()[0] == 200


def test_a_session_that_no_watcher_looks_at_makes_the_service_unhealthy(
    idle: tuple[Store, Switchboard], health: Callable[..., tuple[int, str]], redis_url: str
) -> None:
    with connect(redis_url) as client:
        client.zadd(keys.armed(3), {"acme/s": now_ms() - 11_000})
    status, said = health()
    assert status == 503
    assert "foldahead watch" in said


def test_one_failed_round_of_a_loop_is_no_fault_three_in_a_row_are(health: Callable[..., tuple[int, str]]) -> None:
    stop = threading.Event()
    loop = Loop("look", 0.0, lambda: 1 / 0, stop)
    loop.start()
    wait_until(lambda: loop.in_a_row == 1)
    assert health(loop)[0] == 200
    wait_until(lambda: loop.in_a_row >= 3)
    status, said = health(loop)
    stop.set()
    assert status == 503
    assert "the loop look failed" in said


def test_a_loop_that_works_again_is_no_fault_any_more(health: Callable[..., tuple[int, str]]) -> None:
    stop, broken = threading.Event(), threading.Event()
    broken.set()
    loop = Loop("look", 0.0, lambda: 1 / (not broken.is_set()), stop)
    loop.start()
    wait_until(lambda: loop.in_a_row >= 3)
    broken.clear()
    wait_until(lambda: loop.in_a_row == 0)
    assert health(loop)[0] == 200
    assert loop.failures >= 3
    stop.set()


def test_a_port_that_is_taken_is_said_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        vitals = Vitals(lambda: pytest.fail("nobody measures"), Metrics(), 60.0)
        with pytest.raises(PageTaken, match=f"127.0.0.1:{port}"):
            Page("127.0.0.1", port, Metrics(), vitals)


def test_another_path_says_what_there_is() -> None:
    vitals = Vitals(lambda: pytest.fail("nobody measures"), Metrics(), 60.0)
    with Page("127.0.0.1", 0, Metrics(), vitals) as page:
        assert get(page.port, "/secrets")[0] == 404
