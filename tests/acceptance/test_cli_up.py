"""`foldahead up`, `status` and `policy` as real processes."""

import os
import signal
import socket
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.cli_runs import descendants, run, start, strict_json, wait_gone


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Up:
    """A running `foldahead up`, and its lines as they come."""

    def __init__(self, directory: Path, **environ: str) -> None:
        self.directory = directory
        self.port = free_port()
        self.state = directory / "state"
        self.process = start(
            directory, "up", "--port", str(self.port), "--state", str(self.state), "--flower-port", "0", **environ
        )
        self._environ = environ
        self.lines: list[str] = []

    @property
    def environment(self) -> dict[str, str]:
        return {
            "FOLDAHEAD_REDIS_URL": f"redis://127.0.0.1:{self.port}/0",
            "FOLDAHEAD_DATABASE_URL": f"sqlite:///{self.state}/foldahead.db",
        } | self._environ

    def until(self, word: str) -> str:
        """The next line with a word in it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if word in line:
                return line
        raise AssertionError(f"{word!r} was not said: {self.lines} {self.process.communicate()}")

    def child(self, kind: str) -> int:
        wanted = f"\0{kind}\0".encode()
        [pid] = [pid for pid in descendants(self.process.pid) if wanted in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return pid


@contextmanager
def running_up(directory: Path, **environ: str) -> Generator[Up]:
    """An `up` that is ready, until the block ends; nothing of it is left then."""
    running = Up(directory, **environ)
    children: list[int] = []
    try:
        running.until("ready")
        children = descendants(running.process.pid)
        yield running
    finally:
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGTERM)
        running.process.communicate(timeout=30)
        wait_gone(children)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """For a test that kills parts of it."""
    with running_up(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def whole_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """For tests that leave it whole."""
    with running_up(tmp_path_factory.mktemp("up")) as running:
        yield running


def test_status_tells_of_a_stack_that_runs(whole_up: Up) -> None:
    ran = run(whole_up.directory, "status", "--json", **whole_up.environment)
    status = strict_json(ran.stdout)
    assert ran.returncode == 0
    told = " ".join(f"{name}={value}" for name, value in whole_up.environment.items())
    assert f"shell     export {told}  # for other commands\n" in whole_up.lines
    assert status["redis"]["functions_loaded"] is True
    assert len(status["workers"]) == 1
    assert status["jobs"] == {"queued": 0, "leased": 0, "done": 0, "failed": 0}


def test_it_runs_on_a_database_that_is_named(tmp_path: Path, postgres_url: str) -> None:
    with running_up(tmp_path, FOLDAHEAD_DATABASE_URL=postgres_url) as up:
        status = strict_json(run(up.directory, "status", "--json", **up.environment).stdout)
        assert status["jobs"] == {"queued": 0, "leased": 0, "done": 0, "failed": 0}
        assert "postgresql" in next(line for line in up.lines if line.startswith("database"))
        assert list(up.state.glob("*.db")) == []


def test_a_second_up_on_the_same_state_is_refused_in_one_line(whole_up: Up) -> None:
    ran = run(whole_up.directory, "up", "--state", str(whole_up.state), "--port", str(free_port()))
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert f"runs already on {whole_up.state} (process {whole_up.process.pid})" in ran.stderr


def test_a_taken_port_is_one_line_that_names_it(whole_up: Up) -> None:
    ran = run(whole_up.directory, "up", "--state", str(whole_up.directory / "other"), "--port", str(whole_up.port))
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert f"port {whole_up.port} is taken" in ran.stderr


def test_what_ends_is_started_again(up: Up) -> None:
    for kind in ("watch", "work"):
        os.kill(up.child(kind), signal.SIGKILL)
        assert "was killed (signal 9)" in up.until(kind)
        assert f"{kind} runs again" in up.until("runs again")


def test_its_redis_comes_back_on_the_same_port(up: Up) -> None:
    [server] = [pid for pid in descendants(up.process.pid) if "-server" in Path(f"/proc/{pid}/cmdline").read_text()]
    os.kill(server, signal.SIGKILL)
    assert "redis runs again" in up.until("runs again")
    assert run(up.directory, "policy", "show", "acme", **up.environment).returncode == 0


def test_sigterm_stops_everything_and_is_no_failure(tmp_path: Path) -> None:
    running = Up(tmp_path)
    running.until("ready")
    started = descendants(running.process.pid)
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(30) == 0
    running.process.communicate()
    wait_gone(started)


def test_its_children_end_with_it_when_it_is_killed(tmp_path: Path) -> None:
    running = Up(tmp_path)
    running.until("ready")
    started = descendants(running.process.pid)
    running.process.kill()
    running.process.communicate()
    wait_gone(started)


def test_central_policy_values_are_checked_kept_and_taken_back(whole_up: Up) -> None:
    def policy(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run(whole_up.directory, "policy", *arguments, **whole_up.environment)

    assert policy("set", "acme", "threshold_tokens=40000", "mode=shadow").returncode == 0
    refused = policy("set", "acme", "threshold_tokens=90000")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert strict_json(policy("show", "acme", "--json").stdout) == {"threshold_tokens": 40000, "mode": "shadow"}
    policy("set", "acme", "mode=", "threshold_tokens=")
    assert strict_json(policy("show", "acme", "--json").stdout) == {}


@pytest.mark.parametrize("command", ["status", "watch", "work"])
def test_an_unreachable_redis_is_one_line_and_status_1(tmp_path: Path, command: str) -> None:
    url = f"sqlite:///{tmp_path}/foldahead.db"
    ran = run(tmp_path, command, FOLDAHEAD_REDIS_URL="redis://127.0.0.1:1/0", FOLDAHEAD_DATABASE_URL=url)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.splitlines()[-1].startswith("foldahead: Redis")
