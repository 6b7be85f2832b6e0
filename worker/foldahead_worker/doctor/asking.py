"""What the doctor asks of Redis. Where our user may not ask, the answer is None: that is for the rules to judge."""

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import redis
from redis.exceptions import NoPermissionError

from foldahead import keys, wire
from foldahead_worker.doctor.rules import LibraryFacts, RedisFacts
from foldahead_worker.library import LIBRARY_VERSION, loaded_code, source, version_of

LOOPBACK = ("127.0.0.1", "localhost", "::1", "")
CLIENT_NAME = "foldahead-"
Answer = TypeVar("Answer")


def redis_facts(client: "redis.Redis", now_ms: int) -> RedisFacts:
    """What a server says of itself. Raises redis.RedisError when it does not answer."""
    anyhow: Any = client
    seconds, micros = anyhow.time()
    info: dict[str, Any] = _allowed(anyhow.info) or {}
    config: dict[Any, Any] = _allowed(lambda: anyhow.config_get("maxmemory-policy", "save")) or {}
    said = {_text(name): _text(value) for name, value in config.items()}
    server = str(info.get("server_name") or "redis")
    return RedisFacts(
        server=server,
        version=str(info.get(f"{server}_version") or info.get("redis_version") or "0"),
        mode=str(info.get("redis_mode") or info.get("server_mode") or "standalone"),
        policy=said.get("maxmemory-policy"),
        appendonly=bool(info.get("aof_enabled")),
        last_write_ok=info.get("aof_last_write_status", "ok") == "ok"
        and info.get("rdb_last_bgsave_status", "ok") == "ok",
        save=said.get("save"),
        used_bytes=int(info.get("used_memory") or 0),
        limit_bytes=int(info.get("maxmemory") or 0),
        offset_ms=seconds * 1000 + micros // 1000 - now_ms,
    )


def library_facts(client: "redis.Redis") -> LibraryFacts | None:
    """What is loaded; None where our user may not ask."""
    code = _allowed(lambda: loaded_code(client))
    if code is None:
        return None
    return LibraryFacts(loaded=version_of(code), ours=LIBRARY_VERSION, same_text=code == source())


def refused_to_us(client: "redis.Redis") -> set[str]:
    """What our user may not do of what the server side does. Changes nothing."""
    anyhow: Any = client
    member = keys.member("doctor", "doctor")
    touched = (keys.state(member), keys.bodies(member), keys.ready(member), keys.records(member))
    tries: dict[str, Callable[[], Any]] = {
        "call functions": lambda: anyhow.fcall(
            "fold_look", 5, *touched, keys.POLICIES_HASH, wire.WIRE_VERSION, member, "", ""
        ),
        "load functions": lambda: anyhow.function_list("foldahead"),
        "read the inbox": lambda: anyhow.xlen(keys.INBOX_STREAM),
        "read the events": lambda: anyhow.xlen(keys.EVENTS_STREAM),
        "read the queue": lambda: anyhow.llen(f"{keys.BROKER_PREFIX}foldahead"),
        "look at what is armed": lambda: anyhow.zrange(keys.armed(0), 0, 0),
    }
    return {name for name, attempt in tries.items() if _is_refused(attempt)}


def lets_strangers_in(url: str) -> bool:
    """Whether the server answers somebody without a password."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return False
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    try:
        with redis.Redis.from_url(bare, socket_connect_timeout=2.0, socket_timeout=2.0) as stranger:  # pyright: ignore[reportUnknownMemberType]
            return bool(stranger.ping())  # pyright: ignore[reportUnknownMemberType]
    except redis.RedisError:
        return False


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this host alone."""
    parts = urlsplit(url)
    return parts.scheme == "unix" or (parts.hostname or "") in LOOPBACK


def versions_connected(client: "redis.Redis") -> dict[str, list[str]] | None:
    """Versions of our connections by role: agent, watch, work. None: may not be asked."""
    anyhow: Any = client
    clients: list[dict[str, str]] | None = _allowed(anyhow.client_list)
    if clients is None:
        return None
    seen: dict[str, list[str]] = {}
    for one in clients:
        name = one.get("name", "")
        if name.startswith(CLIENT_NAME):
            role, _, version = name.removeprefix(CLIENT_NAME).partition("/")
            seen.setdefault(role, []).append(version)
    return seen


def _allowed(ask: Callable[[], Answer]) -> Answer | None:
    try:
        return ask()
    except NoPermissionError:
        return None


def _is_refused(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except NoPermissionError:
        return True
    except redis.ResponseError as error:
        return "ACL failure" in str(error)  # within a function
    return False


def _text(value: Any) -> str:
    return value.decode("utf8", "replace") if isinstance(value, bytes) else str(value)
