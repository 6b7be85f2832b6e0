"""The doctor's visit: everything is looked at, and what cannot be reached keeps nothing else from being looked at."""

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import msgspec
import redis

from foldahead.core.policy import Policy
from foldahead_worker.doctor import rules
from foldahead_worker.doctor.asking import (
    is_loopback,
    lets_strangers_in,
    library_facts,
    redis_facts,
    refused_to_us,
    versions_connected,
)
from foldahead_worker.doctor.finding import Finding, bad, ok, warn
from foldahead_worker.gate import Gate
from foldahead_worker.readings import faults_of, take_reading
from foldahead_worker.server import central_overrides, connect
from foldahead_worker.settings import Settings, accounts_of
from foldahead_worker.store import Store, StoreError, open_store
from foldahead_worker.store.status import models_named
from foldahead_worker.store.upgrading import schema_status
from foldahead_worker.summarizers.accounts import PROVIDERS
from foldahead_worker.switchboard import Switchboard


class Visit:
    """One visit. `now_ms` is this host's clock at its beginning."""

    def __init__(self, settings: Settings, workers: list[str] | None, now_ms: int) -> None:
        """`workers`: names of those that answered; None: the broker could not be asked."""
        self._settings = settings
        self._workers = workers
        self._now_ms = now_ms
        self._named = {Policy().model}

    def findings(self) -> list[Finding]:
        """Everything, in the order in which one would mend it."""
        found = [*self._redis_side(), *self._database_side()]
        return [*found, *self._provider_side()]

    def _redis_side(self) -> Iterator[Finding]:
        where = self._settings.redis_url.rpartition("@")[2].rpartition("//")[2]
        try:
            with connect(self._settings.redis_url) as client:
                client.ping()  # pyright: ignore[reportUnknownMemberType]
                yield ok("redis", f"{where} answers")
                yield from self._of_redis(client)
                yield from self._of_processes(client)
        except redis.AuthenticationError as error:
            yield bad("redis", f"{where} refuses our user: {error}", "mend user and password in FOLDAHEAD_REDIS_URL")
        except redis.RedisError as error:
            yield bad("redis", f"{where} cannot be used: {error}", "start it, or mend FOLDAHEAD_REDIS_URL")

    def _of_redis(self, client: "redis.Redis") -> Iterator[Finding]:
        facts = redis_facts(client, self._now_ms)
        yield rules.on_version(facts)
        yield rules.on_mode(facts)
        yield rules.on_eviction(facts)
        yield rules.on_persistence(facts)
        yield rules.on_memory(facts)
        yield rules.on_clock(facts.offset_ms)
        yield rules.on_rights(refused_to_us(client))
        url = self._settings.redis_url
        yield rules.on_strangers(lets_strangers_in(url), is_loopback(url))
        library = library_facts(client)
        if library is not None:
            yield rules.on_library(library)
        yield rules.on_stopped(Gate(client, accounts_of(self._settings)).stopped_workspaces())
        for values in central_overrides(client).values():
            self._named.add(_model_in(values))

    def _of_processes(self, client: "redis.Redis") -> Iterator[Finding]:
        ours = version("foldahead")
        seen = versions_connected(client)
        if self._workers is None:
            yield bad("broker", "the workers cannot be asked through it", "mend FOLDAHEAD_BROKER_URL")
        elif not self._workers:
            yield rules.on_processes("work", (), ours)
        if seen is None:
            yield warn("versions", "may not be asked (CLIENT LIST)", "make sure that one version runs everywhere")
            return
        yield rules.on_processes("watch", seen.get("watch", ()), ours)
        if self._workers:
            yield rules.on_processes("work", seen.get("work") or [ours], ours)
        yield rules.on_agents(seen.get("agent", ()), ours)

    def _database_side(self) -> Iterator[Finding]:
        url = self._settings.database_url
        try:
            status = schema_status(url)
            yield rules.on_schema(status.where, status.version, status.known)
            if not status.is_current:
                return
            store = open_store(url)
            try:
                self._named |= models_named(store)
                yield from self._of_work(store)
            finally:
                store.close()
        except StoreError as error:
            yield bad("database", str(error), "start it, or mend FOLDAHEAD_DATABASE_URL")

    def _of_work(self, store: Store) -> Iterator[Finding]:
        try:
            with connect(self._settings.redis_url) as client:
                reading = take_reading(store, Switchboard(client))
        except redis.RedisError:
            return  # said already
        faults = faults_of(reading, self._settings.health_due_s)
        for fault in faults:
            what, _, how = fault.partition(": ")
            yield bad("work", what, how)
        if not faults:
            yield ok("work", f"{reading.queued} jobs queued, none late")

    def _provider_side(self) -> Iterator[Finding]:
        settings = self._settings
        rules_only = settings.summarizer == "extract"
        accounts = accounts_of(settings)
        set_up = [provider for provider in PROVIDERS if accounts.has("", provider)]
        if settings.providers.keys_dir is not None:
            set_up.append(f"workspaces in {settings.providers.keys_dir}")
        yield rules.on_keys(rules_only, set_up, settings.anthropic_api_key)
        if not rules_only:
            yield from rules.on_models(self._named - {"", "extract"}, settings.models)
            yield rules.on_prices(datetime.fromtimestamp(self._now_ms / 1000, UTC).date())


def _model_in(values: Any) -> str:
    model = values.get("model") if isinstance(values, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return model if isinstance(model, str) else ""


def as_object(finding: Finding) -> dict[str, str]:
    """A finding for programs."""
    return msgspec.to_builtins(finding)
