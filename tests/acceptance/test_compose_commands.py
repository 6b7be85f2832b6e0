"""The commands of docker-compose.yml, run without Docker: same words, same secrets, other ports and folders.

No Docker engine runs where these tests do. What a container adds (users, limits, networks) is checked against the
schema in tests/unit/test_compose_file.py; that the commands work together is checked here.
"""

import os
import shlex
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from compose_spec import PyCompose, PyOptions

from foldahead import Foldahead
from foldahead_worker.embedded.redis_server import find_server_binary
from foldahead_worker.settling import settled
from tests.conversations import POLICY, conversation, is_compacted
from tests.free_port import free_port
from tests.servers import new_database
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
PORTS = ("6379", "9465", "9466", "5555")


class Composed:
    """The services of the compose file as processes of this machine."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        self.ports = {port: str(free_port()) for port in PORTS}
        file: PyCompose = PyOptions(apply_merge=True).from_yaml((ROOT / "docker-compose.yml").read_text("utf-8"))
        self.services: dict[str, Any] = file.to_dict()["services"]
        shutil.copytree(ROOT / "deploy", folder / "deploy")
        subprocess.run(["bash", "deploy/make-secrets.sh"], cwd=folder, check=True, capture_output=True)
        self._point("redis_url", "@redis:6379/", f"@127.0.0.1:{self.ports['6379']}/")
        self._point("redis_agent_url", "@127.0.0.1:6379/", f"@127.0.0.1:{self.ports['6379']}/")
        (folder / "secrets" / "database_url").chmod(0o600)
        (folder / "secrets" / "database_url").write_text(database_url)
        self._running = ExitStack()

    def _point(self, name: str, there: str, here: str) -> None:
        path = self.folder / "secrets" / name
        path.chmod(0o600)
        path.write_text(path.read_text().replace(there, here))

    def secret(self, name: str) -> str:
        return (self.folder / "secrets" / name).read_text()

    def here(self, text: str) -> str:
        """A word of the compose file as it is here."""
        text = str(self.folder) if text == "/data" else text.replace("/run/secrets", str(self.folder / "secrets"))
        for there, port in self.ports.items():
            text = text.replace(there, port)
        return text.replace("0.0.0.0", "127.0.0.1")

    def words(self, command: str | list[str]) -> list[str]:
        return [self.here(word) for word in (shlex.split(command) if isinstance(command, str) else command)]

    def environment(self, name: str) -> dict[str, str]:
        given: dict[str, Any] = self.services[name].get("environment", {})
        paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        fixed = {"PATH": paths, "HOME": str(self.folder), "FLOWER_PORT": self.ports["5555"]}
        return fixed | {key: self.here(str(value)) for key, value in given.items()}

    def run(self, name: str) -> "subprocess.Popen[bytes]":
        """Starts a service as its container would: through the entry point."""
        command = ["sh", str(ROOT / "deploy" / "entrypoint.sh"), *self.words(self.services[name]["command"])]
        return self._start(name, command, self.environment(name))

    def run_redis(self) -> None:
        words = self.words(self.services["redis"]["command"])
        command = [str(find_server_binary()), *words[1:], "--port", self.ports["6379"], "--bind", "127.0.0.1"]
        self._start("redis", command, None)
        wait_until(self.redis_answers)

    def _start(self, name: str, command: list[str], env: dict[str, str] | None) -> "subprocess.Popen[bytes]":
        log = self._running.enter_context((self.folder / f"{name}.log").open("wb"))
        process = self._running.enter_context(
            subprocess.Popen(command, cwd=self.folder, env=env, stdout=log, stderr=log)
        )
        self._running.callback(process.terminate)
        return process

    def redis_answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.secret("redis_url")) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    def is_healthy(self, name: str) -> bool:
        """What the health check of a service says, run as it stands."""
        test: list[str] = self.services[name]["healthcheck"]["test"]
        words = self.words(test[1:])
        ran = subprocess.run(words, env=self.environment(name), capture_output=True, timeout=30, check=False)
        return ran.returncode == 0

    def stop(self) -> None:
        self._running.close()


@pytest.fixture(scope="module")
def composed(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    """Everything up, in the order that the compose file asks for."""
    with new_database(postgres_server) as url:
        services = Composed(tmp_path_factory.mktemp("composed"), url)
        try:
            services.run_redis()
            assert services.run("migrate").wait(60) == 0, (services.folder / "migrate.log").read_text()
            for name in ("watch", "work", "flower"):
                services.run(name)
            yield services
        finally:
            services.stop()


@pytest.mark.parametrize("name", ["watch", "flower"])
def test_a_service_becomes_healthy_by_its_own_check(composed: Composed, name: str) -> None:
    wait_until(lambda: composed.is_healthy(name), timeout_s=60, every_s=0.5)


def test_an_agent_with_an_agents_password_is_served(composed: Composed) -> None:
    wait_until(lambda: composed.is_healthy("watch"), timeout_s=60, every_s=0.5)
    fold = Foldahead(composed.secret("redis_agent_url"))
    session = fold.session("s", workspace="acme", policy=POLICY)
    history = conversation(18, "s")
    session.publish(history)
    assert session.flush(10)
    with redis.Redis.from_url(composed.secret("redis_url")) as server:
        wait_until(lambda: settled(server, session.member), timeout_s=60)
    session.resume(history, timeout=5)
    assert is_compacted(session.view(history))
    fold.close()


def test_flower_asks_for_the_password_that_was_made(composed: Composed) -> None:
    wait_until(lambda: composed.is_healthy("flower"), timeout_s=60, every_s=0.5)
    url = f"http://127.0.0.1:{composed.ports['5555']}/tasks"
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        urllib.request.urlopen(url, timeout=10)
    refused.value.close()


def test_the_logs_are_json_and_hold_no_secret(composed: Composed) -> None:
    wait_until(lambda: composed.is_healthy("watch"), timeout_s=60, every_s=0.5)
    lines = (composed.folder / "watch.log").read_text().splitlines()
    assert any(line.startswith("{") for line in lines)
    logs = "".join(path.read_text("utf8", "replace") for path in composed.folder.glob("*.log"))
    for name in ("redis_password", "redis_agent_password", "flower_basic_auth"):
        assert composed.secret(name) not in logs
