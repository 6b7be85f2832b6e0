"""The Procfile's lines, run as they stand: watcher, worker and Flower come up over one Redis."""

import os
import shlex
import subprocess
import sys
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.free_port import free_port
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
LINES = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())


@pytest.fixture
def flower_port() -> int:
    return free_port()


@pytest.fixture
def logs(redis_url: str, database_url: str, flower_port: int, tmp_path: Path) -> Iterator[Path]:
    """The folder with the logs of the running lines."""
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": paths,
        "FOLDAHEAD_REDIS_URL": redis_url,
        "FOLDAHEAD_DATABASE_URL": database_url,
        "FLOWER_PORT": str(flower_port),
        "XDG_STATE_HOME": str(tmp_path),
    }
    running: list[subprocess.Popen[bytes]] = []
    for name, line in LINES.items():
        with (tmp_path / f"{name}.log").open("wb") as log:
            command = shlex.split(line)
            running.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log))
    yield tmp_path
    for process in running:
        process.terminate()
    for process in running:
        process.wait(30)


def test_every_line_of_the_procfile_becomes_ready(logs: Path) -> None:
    for name in LINES:
        wait_until(lambda at=logs / f"{name}.log": f"{at.stem} ready" in at.read_text(), timeout_s=60, every_s=0.1)


def test_flower_is_closed_and_its_new_password_is_shown_and_kept_for_its_owner_alone(
    logs: Path, flower_port: int
) -> None:
    wait_until(lambda: "flower ready" in (logs / "flower.log").read_text(), timeout_s=60, every_s=0.1)
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        urlopen(f"http://127.0.0.1:{flower_port}/tasks", timeout=10)
    refused.value.close()
    kept = logs / "foldahead" / "flower-auth"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text().strip().partition(":")[2] in (logs / "flower.log").read_text()
