"""Flower over a live run: what a task was for and how it ended is readable at a glance, and nothing of content."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from foldahead import Foldahead
from foldahead_worker.stack import Child
from tests.conversations import POLICY, conversation
from tests.databases import NewDatabase
from tests.free_port import free_port
from tests.stack import RealStack, real_stack
from tests.waiting import wait_until

PASSWORD = "that-nobody-else-uses-4711"
AUTH = f"someone:{PASSWORD}"
CANARY = "zebracanary"


class Site:
    """Flower, read-only, over a stack in which one session was compacted."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str, method: str = "GET", auth: str = AUTH) -> str:
        headers = {"Authorization": f"Basic {base64.b64encode(auth.encode()).decode()}"} if auth else {}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}", method=method, headers=headers)
        if method == "POST":
            request.data = b""
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.read().decode()

    def tasks(self) -> list[dict[str, Any]]:
        return list(json.loads(self.ask("api/tasks")).values())

    def refusal(self, path: str, method: str = "GET", auth: str = AUTH) -> int:
        with pytest.raises(urllib.error.HTTPError) as refused:
            self.ask(path, method, auth)
        with refused.value as answer:
            return answer.code


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, databases: NewDatabase) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("flower")
    with databases(folder) as database_url, real_stack(folder, database_url) as stack:
        port = free_port()
        settings = msgspec.structs.replace(stack.settings, flower_auth=AUTH, flower_port=port, flower_read_only=True)
        flower = Child("flower", settings, folder / "flower.log")
        patterns = stack.client.pubsub_numpat()
        flower.start()
        flower.wait_ready()
        wait_until(lambda: stack.client.pubsub_numpat() > patterns, timeout_s=30)  # it answers before it listens
        compact_one(stack)
        site = Site(port)
        wait_until(lambda: any(task["state"] == "SUCCESS" for task in site.tasks()), timeout_s=30, every_s=0.2)
        yield site
        flower.stop()


def compact_one(stack: RealStack) -> None:
    fold = Foldahead(stack.redis.url)
    session = fold.session("ticket-4711", workspace="acme", policy=POLICY)
    history = conversation(18, CANARY)
    session.publish(history)
    stack.wait_settled(session, history)
    fold.close()


def test_a_task_says_for_whom_it_was_what_and_how_it_ended(site: Site) -> None:
    (task, *_) = [task for task in site.tasks() if "done" in str(task["result"])]
    assert task["name"] == "foldahead.compact"
    assert task["args"].startswith("acme/ticket-4711 ahead extract, ")
    assert task["result"] == "'done: acme/ticket-4711, extract, job 1'"


def test_no_page_shows_a_word_of_content(site: Site) -> None:
    (uuid, *_) = [task["uuid"] for task in site.tasks()]
    pages = "".join(site.ask(path) for path in ("tasks", "workers", f"task/{uuid}", "api/tasks"))
    assert CANARY not in pages


@pytest.mark.parametrize("path", ["tasks", "workers", "broker", "api/tasks", "api/workers"])
def test_no_page_is_open_to_strangers(site: Site, path: str) -> None:
    assert site.refusal(path, auth="") == 401
    assert site.refusal(path, auth="someone:guess") == 401


def test_read_only_takes_no_orders(site: Site) -> None:
    (worker, *_) = json.loads(site.ask("api/workers?refresh=1"))
    assert site.refusal(f"api/worker/shutdown/{worker}", "POST") in (403, 405)
    assert site.refusal(f"api/worker/pool/grow/{worker}?n=1", "POST") in (403, 405)


def test_the_password_is_in_no_process_list(site: Site) -> None:
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if readable(path)]
    assert not [command for command in commands if PASSWORD.encode() in command]


def readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True
