"""Central policy values of workspaces: the database keeps them, Redis has a copy for agents."""

from collections.abc import Iterator

import pytest

from foldahead import keys
from foldahead_worker.store.policies import get_policies, get_policy, set_policy
from tests.correspondence import Scribe
from tests.integration.redis_room.calling import publish
from tests.services import Services, running_services
from tests.stores import NOW_MS
from tests.waiting import wait_until


@pytest.fixture
def services(redis_url: str, store_url: str) -> Iterator[Services]:
    with running_services(redis_url, store_url) as running:
        yield running


def overrides(services: Services, workspace: str = "acme", n: int = 1) -> bytes:
    return publish(services.client, Scribe(workspace=workspace), n).answer.overrides


def test_the_newest_values_of_a_workspace_are_kept(store):
    assert get_policy(store, "acme") == "{}"
    set_policy(store, "acme", '{"mode":"off"}', NOW_MS)
    set_policy(store, "a/b%", '{"mode":"shadow"}', NOW_MS)
    set_policy(store, "acme", '{"mode":"on"}', NOW_MS + 1)
    assert get_policies(store) == {"acme": '{"mode":"on"}', "a/b%": '{"mode":"shadow"}'}


def test_a_redis_that_lost_its_memory_has_them_again_soon(services: Services):
    set_policy(services.store, "acme", '{"mode":"off"}', NOW_MS)
    services.sweeper.copy_policies()
    assert overrides(services) == b'{"mode":"off"}'
    services.client.flushall()
    wait_until(services.switchboard.has_policies)
    assert overrides(services) == b'{"mode":"off"}'


def test_a_workspace_with_any_name_gets_its_own(services: Services):
    set_policy(services.store, "a/b c%", '{"mode":"off"}', NOW_MS)
    services.sweeper.copy_policies()
    assert overrides(services, "a/b c%") == b'{"mode":"off"}'
    assert overrides(services, "a") == b""


def test_values_taken_back_and_values_that_nobody_set_go(services: Services):
    set_policy(services.store, "acme", '{"mode":"off"}', NOW_MS)
    services.sweeper.copy_policies()
    services.client.hset(keys.POLICIES_HASH, "umbrella", '{"mode":"off"}')
    set_policy(services.store, "acme", "{}", NOW_MS + 1)
    services.sweeper.tidy()
    assert overrides(services) == overrides(services, "umbrella") == b""
