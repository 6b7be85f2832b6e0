"""Running the `foldahead` command as a user does: a real process, its output, its exit status."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conversations import conversation
from tests.waiting import wait_until

COMMAND = (sys.executable, "-m", "foldahead_worker.cli")
LOW = ("--set", "threshold_tokens=3000", "--set", "min_span_tokens=200", "--set", "preserve_recent_turns=3")
"""A policy for conversations of a few thousand tokens."""
OURS = ("FOLDAHEAD_", "ANTHROPIC_", "FLOWER_")


def environment(directory: Path, **more: str) -> dict[str, str]:
    """An environment in which nothing of the machine's own foldahead is seen; temporary files go into `directory`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return kept | {"TMPDIR": str(directory), "XDG_STATE_HOME": str(directory / "state")} | more


def start(directory: Path, *arguments: str, **more: str) -> subprocess.Popen[str]:
    """The command, under way."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(directory, **more),
        start_new_session=True,
        preexec_fn=_heed_interrupts,  # noqa: PLW1509 - only sets a signal, takes no lock
    )


def _heed_interrupts() -> None:
    """A shell that runs the tests in the background has its children ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run(directory: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The command, to its end."""
    process = start(directory, *arguments, **more)
    try:
        out, err = process.communicate(timeout=100)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def strict_json(text: str) -> Any:
    """JSON as every reader takes it. Raises ValueError for NaN and infinities."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def write_session(directory: Path, turns: int = 24, name: str = "session.json", mark: str = "w") -> Path:
    """A recorded session in a file of its own."""
    path = directory / name
    path.write_text(json.dumps(conversation(turns, mark=mark)))
    return path


def descendants(pid: int) -> list[int]:
    """Processes that a process started, theirs included."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(child): int(parent) for child, parent in (line.split() for line in listed.splitlines())}
    found, grown = {pid}, True
    while grown:
        new = {child for child, parent in parents.items() if parent in found} - found
        grown = bool(new)
        found |= new
    return sorted(found - {pid})


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_gone(pids: list[int], timeout_s: float = 15) -> None:
    """Fails the test when one of them still runs after that time."""
    wait_until(lambda: not any(map(is_alive, pids)), timeout_s)
