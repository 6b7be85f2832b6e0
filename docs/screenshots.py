"""Takes the pictures of docs/img/: Flower's pages of a live run, with sessions of two workspaces.

    .venv/bin/python docs/screenshots.py [--chromium /usr/bin/chromium]

Everything is real but the provider: an embedded Redis, a watcher, a worker, Flower, agents, and the stand-in for the
Claude API, which takes some seconds for a summary and refuses one.
"""

import argparse
import base64
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from foldahead import Foldahead, Policy
from foldahead_worker.settings import Settings
from foldahead_worker.stack import Child, private_stack
from foldahead_worker.standin.options import Options
from foldahead_worker.standin.process import start_standin
from foldahead_worker.standin.script import Scripted

IMAGES = Path(__file__).parent / "img"
MOST_BYTES = 300_000
AUTH = "foldahead:a-password-for-pictures"
PORT = 15_555
SESSIONS = [("acme", f"ticket-{number}") for number in (4711, 4712, 4718, 4720)] + [
    ("umbrella", f"deploy-{number}") for number in (17, 18, 19)
]
FAULTS = (
    Scripted(contains="ticket-4712", status=529, first_byte_s=0.5),
    Scripted(contains="deploy-18", status=400, first_byte_s=0.5),
)
POLICY = Policy(threshold_tokens=6_000, hard_cap_tokens=14_000, min_span_tokens=500, preserve_recent_turns=2)


def converse(fold: Foldahead, workspace: str, name: str, turns: int, turn_s: float) -> None:
    """One agent's session: calls and results, at a steady pace."""
    session = fold.session(name, workspace=workspace, dialect="anthropic", policy=POLICY)
    history: list[dict[str, Any]] = [{"role": "user", "content": f"Look into {name}; never touch prod.yaml."}]
    for turn in range(turns):
        request = session.request(model="claude-haiku-4-5", max_tokens=500, messages=history)
        assert request["messages"]
        call = {"type": "tool_use", "id": f"t{turn}", "name": "run", "input": {"command": f"make check-{turn}"}}
        history.append({"role": "assistant", "content": [{"type": "text", "text": f"Step {turn}."}, call]})
        output = f"check {turn} of {name} passed: " + " ".join(f"line {turn}-{at} is fine" for at in range(60))
        result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": output}
        history.append({"role": "user", "content": [result]})
        session.publish(history)
        time.sleep(turn_s)


@contextmanager
def running_flower(settings: Settings, folder: Path) -> Iterator[None]:
    """Flower on a port of its own, read-only."""
    own = msgspec.structs.replace(settings, flower_auth=AUTH, flower_port=PORT, flower_read_only=True)
    child = Child("flower", own, folder / "flower.log")
    child.start()
    try:
        child.wait_ready()
        yield
    finally:
        child.stop()


def shoot(chromium: str, folder: Path, page: str, picture: Path, size: str) -> None:
    """One page as a picture. Raises CalledProcessError, and AssertionError for one that is too large."""
    command = [
        chromium,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--hide-scrollbars",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={folder / 'chromium'}",
        f"--window-size={size}",
        "--virtual-time-budget=6000",
        f"--screenshot={picture}",
        f"http://{AUTH}@127.0.0.1:{PORT}/{page}",
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=90)
    assert picture.stat().st_size < MOST_BYTES, f"{picture} is too large"


def wake_up_workers_page() -> None:
    """Flower asks the workers for their state when it is asked to."""
    credentials = base64.b64encode(AUTH.encode()).decode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/api/workers?refresh=1", headers={"Authorization": f"Basic {credentials}"}
    )
    urllib.request.urlopen(request, timeout=20).read()


def main() -> None:
    """Run everything, take the pictures, stop everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    chromium = parser.parse_args().chromium
    IMAGES.mkdir(exist_ok=True)
    options = Options(first_byte_s=0.6, per_token_s=0.004, script=FAULTS)
    with tempfile.TemporaryDirectory(prefix="foldahead-pictures-") as name, start_standin(options) as standin:
        folder = Path(name)
        os.environ["HOME"] = name
        settings = Settings(
            redis_url="", database_url="", broker_url="", anthropic_api_key="key", anthropic_base_url=standin.url
        )
        with private_stack(settings) as stack, running_flower(stack.settings, folder):
            fold = Foldahead(stack.settings.redis_url)
            agents = [
                threading.Thread(target=converse, args=(fold, workspace, session, 26, 0.35))
                for workspace, session in SESSIONS
            ]
            for agent in agents:
                agent.start()
                time.sleep(0.3)
            agents[0].join()
            wake_up_workers_page()
            shoot(chromium, folder, "tasks", IMAGES / "flower-tasks.png", "2000,940")
            shoot(chromium, folder, "workers", IMAGES / "flower-workers.png", "1500,520")
            for agent in agents:
                agent.join()
            fold.close()
    sys.stdout.write(f"pictures in {IMAGES}\n")


if __name__ == "__main__":
    main()
