"""The Procfile's Flower line, run as it stands but for the port: it shows our broker, on loopback alone."""

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def line_of(process: str) -> list[str]:
    lines = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())
    return shlex.split(lines[process])


@pytest.fixture
def flower(redis_url: str, tmp_path: Path) -> Iterator[int]:
    """A running Flower; gives its port."""
    port = free_port()
    command = [part.replace("--port=5555", f"--port={port}") for part in line_of("flower")]
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": paths, "FOLDAHEAD_REDIS_URL": redis_url}
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log) as process,
    ):
        yield port
        process.terminate()


def answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/healthcheck", timeout=5) as reply:
            return reply.read() == b"OK"
    except OSError:
        return False


def test_flower_comes_up_over_our_broker(flower: int) -> None:
    wait_until(lambda: answers(flower), timeout_s=30, every_s=0.1)


def test_flower_listens_on_loopback() -> None:
    assert "--address=127.0.0.1" in line_of("flower")
