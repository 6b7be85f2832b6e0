"""The workspace's breaker: views refused in session after session put it into shadow mode, with one alarm."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import redis

from foldahead import keys
from foldahead.core.events import SessionRejected, SessionSwapped, envelope
from foldahead_worker.keeping import Keeper
from foldahead_worker.refusals import LEAST_SESSIONS, too_many
from foldahead_worker.store import Store
from foldahead_worker.store.policies import get_policy, set_policy
from foldahead_worker.switchboard import Switchboard
from tests.correspondence import Scribe
from tests.integration.redis_room.calling import publish, redis_with_library
from tests.stores import NOW_MS


@pytest.fixture
def client(redis_url: str) -> Iterator["redis.Redis"]:
    with redis_with_library(redis_url) as client:
        yield client


@pytest.fixture
def keeper(store: Store, client: "redis.Redis") -> Keeper:
    return Keeper("alive", store, Switchboard(client))


def rejected(session: str) -> bytes:
    event = SessionRejected(
        session_id=session, turn_id="1", cache_key=None, error_class="BadRequestError", error_message="no"
    )
    return msgspec.json.encode(envelope(event, "acme", NOW_MS))


def swapped(session: str) -> bytes:
    event = SessionSwapped(
        session_id=session, turn_id="1", watermark_after=9, summary_kind="text", tokens_before=9, tokens_after=1
    )
    return msgspec.json.encode(envelope(event, "acme", NOW_MS))


def refuse(client: Any, keeper: Keeper, sessions: range, times: int = 1) -> None:
    """So many sessions report a refused view."""
    for at in sessions:
        reports = [(n, rejected(f"s{at}")) for n in range(1, times + 1)]
        publish(client, Scribe(f"s{at}"), 1, events=reports)
    while keeper.keep(20):
        pass


def mode(store: Store) -> str | None:
    return json.loads(get_policy(store, "acme")).get("mode")


def test_views_refused_in_many_sessions_put_the_workspace_into_shadow_mode(client, keeper, store):
    set_policy(store, "acme", '{"threshold_tokens":9000}', 1)
    refuse(client, keeper, range(LEAST_SESSIONS))
    assert json.loads(get_policy(store, "acme")) == {"threshold_tokens": 9000, "mode": "shadow"}
    answer = publish(client, Scribe("another"), 1).answer
    assert json.loads(answer.overrides) == {"threshold_tokens": 9000, "mode": "shadow"}


def test_one_alarm_is_raised_however_many_more_are_refused(client, keeper, store, caplog):
    with caplog.at_level(logging.ERROR, "foldahead.refusals"):
        refuse(client, keeper, range(LEAST_SESSIONS))
        refuse(client, keeper, range(LEAST_SESSIONS, 3 * LEAST_SESSIONS))
    assert [record.getMessage()[:20] for record in caplog.records] == ["ALARM workspace acme"]


def test_one_sessions_refused_views_are_its_own_affair(client, keeper, store):
    refuse(client, keeper, range(1), times=3 * LEAST_SESSIONS)
    assert mode(store) is None


def test_an_operator_ends_it_and_what_was_refused_before_is_forgiven(client, keeper, store):
    refuse(client, keeper, range(LEAST_SESSIONS))
    set_policy(store, "acme", "{}", 2**42)
    refuse(client, keeper, range(LEAST_SESSIONS, LEAST_SESSIONS + 1))
    assert mode(store) is None


def test_a_workspace_that_is_off_stays_off(client, keeper, store):
    set_policy(store, "acme", '{"mode":"off"}', 1)
    refuse(client, keeper, range(LEAST_SESSIONS))
    assert mode(store) == "off"


def test_other_workspaces_go_on(client, keeper, store):
    refuse(client, keeper, range(LEAST_SESSIONS))
    assert get_policy(store, "umbrella") == "{}"
    assert publish(client, Scribe(workspace="umbrella"), 1).answer.overrides == b""


def test_a_fleet_in_which_few_of_many_are_refused_goes_on(client, keeper, store):
    for at in range(100, 100 + 20 * LEAST_SESSIONS):
        publish(client, Scribe(f"s{at}"), 1, events=[(1, swapped(f"s{at}"))])
    refuse(client, keeper, range(LEAST_SESSIONS))
    assert mode(store) is None


@pytest.mark.parametrize(
    ("rejected_sessions", "swapped_sessions", "broken"),
    [(0, 0, False), (4, 4, False), (5, 0, True), (5, 50, True), (5, 51, False), (100, 1_000, True)],
)
def test_it_takes_a_tenth_of_the_sessions_and_five_at_least(
    rejected_sessions: int, swapped_sessions: int, broken: bool
) -> None:
    assert too_many(rejected_sessions, swapped_sessions) == broken


def test_the_state_of_every_session_is_left_as_it_is(client, keeper):
    refuse(client, keeper, range(LEAST_SESSIONS))
    assert client.exists(keys.state("acme/s0"))
