"""The embedded Redis server: it starts, dies with its parent, and says clearly what went wrong."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from foldahead_worker.embedded.redis_server import EmbeddedRedis, PortTaken, ServerFailed
from tests.waiting import wait_until

PARENT = """
import pathlib, signal, sys
from foldahead_worker.embedded.redis_server import EmbeddedRedis
server = EmbeddedRedis(pathlib.Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
signal.pause()
"""


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_a_started_server_answers_at_its_url() -> None:
    with EmbeddedRedis() as server, redis.Redis.from_url(server.url) as client:
        assert client.ping()


def test_a_server_never_evicts() -> None:
    with EmbeddedRedis() as server, redis.Redis.from_url(server.url) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_a_server_listens_on_loopback_alone() -> None:
    with EmbeddedRedis() as server, redis.Redis.from_url(server.url) as client:
        assert client.config_get("bind") == {"bind": "127.0.0.1"}


def test_a_stopped_server_is_gone() -> None:
    with EmbeddedRedis() as server:
        pid = server.pid
    assert not is_running(pid)


def test_a_stopped_server_leaves_no_temporary_directory() -> None:
    with EmbeddedRedis() as server, redis.Redis.from_url(server.url) as client:
        directory = Path(str(client.config_get("dir")["dir"]))
        assert directory.is_dir()
    assert not directory.exists()


def test_stopping_twice_is_harmless() -> None:
    server = EmbeddedRedis()
    server.start()
    server.stop()
    server.stop()


@pytest.mark.parametrize("last_signal", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_dies_with_the_process_that_started_it(last_signal: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        server_pid = int(parent.stdout.readline())
        assert is_running(server_pid)
        parent.send_signal(last_signal)
        parent.wait()
    wait_until(lambda: not is_running(server_pid))


def test_a_taken_port_is_one_clear_error() -> None:
    with EmbeddedRedis() as first:
        second = EmbeddedRedis(port=first.port)
        with pytest.raises(PortTaken, match=f"port {first.port} on 127.0.0.1 is taken"):
            second.start()


def test_a_failed_start_leaves_nothing_running() -> None:
    with EmbeddedRedis() as first:
        second = EmbeddedRedis(port=first.port)
        with pytest.raises(PortTaken):
            second.start()
        with pytest.raises(ServerFailed, match="not running"):
            _ = second.pid


def test_a_killed_server_comes_back_at_the_same_url() -> None:
    with EmbeddedRedis() as server, redis.Redis.from_url(server.url) as client:
        first_pid = server.pid
        server.kill()
        server.start()
        assert client.ping()
        assert server.pid != first_pid


def test_a_persistent_server_finds_its_data_again(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path, persistent=True) as server, redis.Redis.from_url(server.url) as client:
        client.set("kept", "yes")
    with EmbeddedRedis(tmp_path, persistent=True) as server, redis.Redis.from_url(server.url) as client:
        assert client.get("kept") == b"yes"


def test_a_server_that_is_not_persistent_forgets(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        client.set("kept", "yes")
    with EmbeddedRedis(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        assert client.get("kept") is None


def test_a_persistent_server_without_a_directory_is_refused() -> None:
    with pytest.raises(ValueError, match="directory"):
        EmbeddedRedis(persistent=True)


def test_a_paused_server_is_waited_for() -> None:
    with EmbeddedRedis() as server:
        os.kill(server.pid, signal.SIGSTOP)
        os.kill(server.pid, signal.SIGCONT)
        server.wait_ready()


def test_a_server_whose_directory_cannot_be_used_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "appendonlydir"
    broken.write_text("a file where the server wants a directory")
    with pytest.raises(ServerFailed, match="Its last words"):
        EmbeddedRedis(tmp_path, persistent=True).start()
