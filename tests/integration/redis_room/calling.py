"""A Redis with the function library, and calls of it as an agent makes them."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import redis

from foldahead import keys, wire
from foldahead.calls import Call, Publish, Reply, publish_call, read_reply, record_id, resume_call
from foldahead_worker.embedded.redis_server import EmbeddedRedis
from foldahead_worker.library import load
from foldahead_worker.switchboard import Switchboard
from tests.correspondence import Scribe

LASTING = {keys.POLICIES_HASH}
"""Keys without a TTL: written by an operator, one field a workspace."""


@contextmanager
def redis_with_library(url: str) -> Generator["redis.Redis"]:
    """A client of a Redis that has the library. Fails the test when a key without TTL is left."""
    with redis.Redis.from_url(url) as client:
        load(client)
        yield client
        assert keys_without_ttl(client) == set()


def keys_without_ttl(client: "redis.Redis") -> set[str]:
    """Names of the keys that would stay for ever, but for those that may."""
    names: Any = client.keys("*")
    return {name.decode() for name in names if client.ttl(name) < 0} - LASTING


def ask(client: "redis.Redis", call: Call) -> Reply | None:
    """One call, as the link makes it."""
    reply: Any = client.execute_command(*call.command)
    return read_reply(reply)


def publish(client: "redis.Redis", scribe: Scribe, n: int = 1, incarnation: str = "a", **changes: Any) -> Reply:
    """Publish how a session stands; `changes` to what is sent. Bodies and records only where given."""
    standing = scribe.standing()
    values: dict[str, Any] = {
        "member": scribe.member,
        "incarnation": incarnation,
        "n": n,
        "standing": wire.encode(standing),
        "messages": standing.messages,
        "head": standing.head,
        "due_ms": None if scribe.due_in_s is None else int(scribe.due_in_s * 1000),
        "urgent": standing.at_hard_cap,
        "upload": scribe.upload,
        "anchors": [(at, head) for at, head in enumerate(scribe.heads) if at],
    }
    reply = ask(client, publish_call(Publish(**values | changes)))
    assert reply is not None
    return reply


def with_bodies(scribe: Scribe, start: int = 0) -> dict[str, Any]:
    """What a publish carries to hand over the bodies from `start` on."""
    return {
        "bodies_from": start,
        "head_before": scribe.heads[start],
        "bodies": [(head, b"\0", body) for head, body in scribe.stored(start)],
    }


def with_records(*records: bytes) -> dict[str, Any]:
    """What a publish carries to hand over records."""
    return {"records": [(record_id(record), record) for record in records]}


def resume(client: "redis.Redis", scribe: Scribe) -> wire.Answer:
    """All that Redis says of a session."""
    reply = ask(client, resume_call(scribe.member))
    assert reply is not None
    return reply.answer


def server_with_library(server: EmbeddedRedis) -> "redis.Redis":
    client = redis.Redis.from_url(server.url)
    load(client)
    return client


def has_all_bodies(switchboard: Switchboard, scribe: Scribe) -> Callable[[], bool]:
    return lambda: switchboard.bodies(scribe.member)[2] == scribe.stored()
