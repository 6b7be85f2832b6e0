"""An error that nobody foresaw, in one job: counted, logged without content, tried again, and in the end given up."""

import logging
from collections.abc import Iterator

import msgspec
import pytest
import redis
from sqlalchemy import select

from foldahead import Foldahead
from foldahead_worker.endings import Ending
from foldahead_worker.settling import settled
from foldahead_worker.store import Store
from foldahead_worker.store.events import events_after
from foldahead_worker.store.jobs import want
from foldahead_worker.store.schema import jobs
from foldahead_worker.store.spend import reserve, spent_by_session
from foldahead_worker.summarizers.extract import ExtractSummarizer
from foldahead_worker.summarizers.protocol import Answer, Check, Span
from foldahead_worker.switchboard import Switchboard
from tests.conversations import POLICY, conversation, is_compacted
from tests.integration.redis_room.calling import redis_with_library
from tests.services import Services, running_services
from tests.stores import NOW_MS, a_want, leased
from tests.waiting import wait_until

CANARY = "zebracanary"


class Faulty(ExtractSummarizer):
    """Has a fault of its own with what one workspace says."""

    def summarise(self, span: Span, check: Check) -> Answer:
        if span.request.workspace == "unlucky":
            raise RuntimeError(f"cannot digest {CANARY}")
        return super().summarise(span, check)


@pytest.fixture
def services(redis_url: str, database_url: str) -> Iterator[Services]:
    with running_services(redis_url, database_url, Faulty) as running:
        yield running


def unlucky_job(services: Services) -> tuple[str, int, str]:
    row = jobs.c
    with services.store.reading() as connection:
        found = connection.execute(select(row.state, row.attempts, row.reason).where(row.workspace == "unlucky"))
        state, attempts, reason = found.one()
    return state, attempts, reason


def test_it_ends_after_its_attempts_and_is_told_counted_and_logged_without_a_word_of_content(
    services: Services, fold: Foldahead, caplog: pytest.LogCaptureFixture
) -> None:
    policy = msgspec.structs.replace(POLICY, max_attempts=2)
    session = fold.session("s", workspace="unlucky", policy=policy)
    session.publish(conversation(18, CANARY))
    assert session.flush(5)
    wait_until(lambda: settled(services.client, session.member), timeout_s=30)

    assert unlucky_job(services) == ("failed", 2, "RuntimeError")
    (told,) = [row.json for row in events_after(services.store) if row.kind == "session.compaction_failed"]
    assert '"adapter_error"' in told
    assert '"RuntimeError"' in told
    assert services.metrics.registry.get_sample_value("foldahead_set_aside_total", {"where": "work"}) == 2
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(logged) == 2
    assert "unforeseen RuntimeError" in logged[0]
    assert "test_unforeseen_errors.py:" in logged[0]
    assert CANARY not in told + " ".join(str(record.__dict__) for record in caplog.records)


def test_others_are_served_beside_it(services: Services, fold: Foldahead) -> None:
    histories = {workspace: conversation(18, workspace) for workspace in ("unlucky", "acme")}
    sessions = {workspace: fold.session("s", workspace=workspace, policy=POLICY) for workspace in histories}
    for workspace, history in histories.items():
        sessions[workspace].publish(history)
    assert fold.flush(5)
    wait_until(lambda: settled(services.client, sessions["acme"].member))
    sessions["acme"].resume(histories["acme"], timeout=2)

    assert is_compacted(sessions["acme"].view(histories["acme"]))


@pytest.fixture
def client(redis_url: str) -> Iterator["redis.Redis"]:
    with redis_with_library(redis_url) as client:
        yield client


def test_what_was_reserved_stands_because_nobody_knows_what_was_billed(store: Store, client: "redis.Redis") -> None:
    wish = a_want()
    want(store, wish, NOW_MS)
    job = leased(store)
    reserve(store, job.job_id, job.token, 100, NOW_MS)

    ended = Ending(store, Switchboard(client), job).broke(RuntimeError(CANARY))

    assert (ended.outcome, ended.reason) == ("retry", "RuntimeError")
    assert spent_by_session(store, wish.request.workspace, wish.session) == 100
