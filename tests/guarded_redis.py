"""A Redis server that lets in only who deploy/*.acl names."""

import contextlib
import hashlib
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from msgspec import Struct

from foldahead_worker.embedded.redis_server import find_server_binary
from tests.free_port import free_port
from tests.waiting import wait_until

DEPLOY = Path(__file__).parents[1] / "deploy"
PASSWORDS = {"AGENT": "an agent's", "SERVER": "a server's", "ROOT": "root's"}
ROOT_USER = f"user root on #{hashlib.sha256(PASSWORDS['ROOT'].encode()).hexdigest()} ~* &* +@all\n"


class Guarded(Struct, frozen=True, kw_only=True):
    """A running server, and the URLs of those who may come in."""

    port: int
    agent_url: str
    server_url: str
    root_url: str

    def client(self, url: str) -> "redis.Redis":
        """A client with these rights; its own connection to the server."""
        return redis.Redis.from_url(url, socket_timeout=5)

    def refusals(self) -> set[tuple[str, str, str]]:
        """What was refused so far: user, reason, object."""
        with self.client(self.root_url) as client:
            entries: list[Any] = client.acl_log()
        names = ("username", "reason", "object")
        return {tuple(entry[name] for name in names) for entry in entries}  # type: ignore[misc]


def acl_text() -> str:
    """Both files with the hashes of our passwords, and nobody by default."""
    text = "user default off\n" + ROOT_USER
    for name, password in (("agents", "AGENT"), ("servers", "SERVER")):
        digest = hashlib.sha256(PASSWORDS[password].encode()).hexdigest()
        text += (DEPLOY / f"redis-{name}.acl").read_text("utf8").replace(f"{password}_PASSWORD_SHA256", digest)
    return text


@contextmanager
def guarded_redis(folder: Path) -> Generator[Guarded]:
    """A server with these rights until the block ends."""
    (folder / "users.acl").write_text(acl_text(), "utf8")
    port = free_port()
    fixed = ["--bind", "127.0.0.1", "--save", "", "--dir", str(folder), "--maxmemory-policy", "noeviction"]
    command = [str(find_server_binary()), *fixed, "--aclfile", str(folder / "users.acl"), "--port", str(port)]
    urls = {
        user: f"redis://{user}:{PASSWORDS[password].replace(' ', '%20')}@127.0.0.1:{port}/0"
        for user, password in (("foldahead-agent", "AGENT"), ("foldahead-server", "SERVER"), ("root", "ROOT"))
    }
    with (
        (folder / "redis.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            wait_until(lambda: answers(urls["root"], process, folder))
            yield Guarded(
                port=port,
                agent_url=urls["foldahead-agent"],
                server_url=urls["foldahead-server"],
                root_url=urls["root"],
            )
        finally:
            process.terminate()


def answers(url: str, process: subprocess.Popen[bytes], folder: Path) -> bool:
    assert process.poll() is None, (folder / "redis.log").read_text("utf8", "replace")
    with contextlib.suppress(redis.ConnectionError), redis.Redis.from_url(url) as client:
        return bool(client.ping())
    return False
