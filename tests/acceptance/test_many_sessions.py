"""Many sessions at once: nothing crosses, forks share one call, the flood of one tenant holds up no other."""

import time
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from sqlalchemy import select

from foldahead import Foldahead, Session
from foldahead.core.request import SummaryRequest
from foldahead_worker.clock import now_ms
from foldahead_worker.store import schema
from foldahead_worker.store.events import events_after
from foldahead_worker.store.jobs import Want, want_batch
from tests.acceptance.conftest import MakeStack
from tests.conversations import POLICY, Messages, conversation, is_compacted
from tests.stack import RealStack
from tests.waiting import wait_until

FLOOD = 10_000


@pytest.fixture
def fold(shared_stack: RealStack) -> Iterator[Foldahead]:
    client = Foldahead(shared_stack.redis.url)
    yield client
    client.close()


def past_threshold(fold: Foldahead, workspace: str, name: str, history: Messages) -> tuple[Session, Messages]:
    session = fold.session(name, workspace=workspace, policy=POLICY)
    session.publish(history)
    return session, history


def views_of(stack: RealStack, sessions: Sequence[tuple[Session, Messages]]) -> list[str]:
    """What each session sends once it has its summary."""
    views: list[str] = []
    for session, history in sessions:
        stack.wait_settled(session, history, timeout_s=30)
        view = session.view(history)
        assert is_compacted(view)
        views.append(str(view))
    return views


def told(stack: RealStack, workspace: str, kind: str) -> list[dict[str, object]]:
    rows = events_after(stack.store, workspace=workspace)
    return [msgspec.json.decode(row.json)["payload"] for row in rows if row.kind == f"session.{kind}"]


def test_no_word_of_a_session_is_seen_in_another_though_one_worker_writes_fifty_at_once(
    make_stack: MakeStack,
) -> None:
    stack = make_stack(concurrency=50)
    fold = Foldahead(stack.redis.url)
    canaries = [f"canary{at:03d}zebra" for at in range(51)]

    def session_of(canary: str) -> tuple[Session, Messages]:
        return past_threshold(fold, "acme", canary, conversation(18, canary, mark=canary))

    views = views_of(stack, [session_of(canaries[0])])
    views += views_of(stack, [session_of(canary) for canary in canaries[1:]])

    seen = [{canary for canary in canaries if canary in view} for view in views]
    fold.close()
    assert seen == [{canary} for canary in canaries]


def test_the_same_content_in_another_workspace_is_a_miss_and_leaves_no_trace(
    shared_stack: RealStack, fold: Foldahead
) -> None:
    views = [
        views_of(shared_stack, [past_threshold(fold, workspace, "s", conversation(18, "twins"))])
        for workspace in ("twin-a", "twin-b")
    ]

    keys = [{job.cache_key for job in shared_stack.jobs(workspace)} for workspace in ("twin-a", "twin-b")]
    assert views[0] == views[1]
    assert not keys[0] & keys[1]
    for workspace in ("twin-a", "twin-b"):
        wait_until(lambda workspace=workspace: told(shared_stack, workspace, "compaction_completed"))
        assert not any(event["cache_hit"] for event in told(shared_stack, workspace, "compaction_completed"))


def test_a_hundred_forks_that_cross_in_the_same_second_take_one_summary_and_all_swap(
    shared_stack: RealStack, fold: Foldahead
) -> None:
    prefix = conversation(18, "forks")
    forks = [past_threshold(fold, "forks", f"fork-{at}", [*prefix]) for at in range(100)]
    views = views_of(shared_stack, forks)
    assert fold.flush(10)

    def all_told() -> bool:
        completed = told(shared_stack, "forks", "compaction_completed")
        return len(completed) == len(told(shared_stack, "forks", "swapped")) == 100

    wait_until(all_told, timeout_s=20)
    assert set(views) == {views[0]}
    assert [(job.state, job.attempts) for job in shared_stack.jobs("forks")] == [("done", 1)]
    paid = [event for event in told(shared_stack, "forks", "compaction_completed") if not event["cache_hit"]]
    assert len(paid) == 1


def flood(stack: RealStack, workspace: str) -> None:
    """Ten thousand jobs that can all be done: for the bodies of one session, each with other instructions."""
    with stack.store.reading() as connection:
        encoded = connection.scalar(select(schema.jobs.c.request).where(schema.jobs.c.workspace == workspace))
    assert encoded is not None
    request = msgspec.msgpack.decode(encoded, type=SummaryRequest)
    wishes = [
        Want(
            request=msgspec.structs.replace(request, instructions=f"variant {at}"),
            session="flood",
            turn_id="1",
            watermark_before=0,
            urgency="ahead",
            deadline_ms=0,
            max_attempts=3,
            budget_picodollars=0,
        )
        for at in range(FLOOD)
    ]
    want_batch(stack.store, wishes, now_ms())


def test_a_tenant_with_ten_thousand_jobs_does_not_hold_up_the_single_session_of_another(
    make_stack: MakeStack,
) -> None:
    stack = make_stack(concurrency=8, summary_delay_s=0.2)
    fold = Foldahead(stack.redis.url)
    views_of(stack, [past_threshold(fold, "flood", "flood", conversation(18, "flood"))])
    flood(stack, "flood")
    wait_until(lambda: sum(job.state == "done" for job in stack.jobs("flood")) > 16, every_s=0.1)

    started_s = time.monotonic()
    views_of(stack, [past_threshold(fold, "single", "s", conversation(18, "single"))])
    took_s = time.monotonic() - started_s

    waiting = sum(job.state == "queued" for job in stack.jobs("flood"))
    fold.close()
    assert took_s < 4
    assert waiting > FLOOD * 0.9
