"""The two kinds of agents that are played: one that lives on, and one that is a new process for every turn."""

import json
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Protocol

import msgspec

from foldahead import Foldahead
from foldahead.core.policy import policy_from
from foldahead.errors import FoldaheadError
from foldahead.keys import member
from foldahead_worker.importers import ImportedSession
from foldahead_worker.json_out import json_text
from foldahead_worker.means import Chooser, OneKey
from foldahead_worker.playing.frame import Frame
from foldahead_worker.playing.plays import Task
from foldahead_worker.playing.providers import provider_for
from foldahead_worker.playing.taking import Taken, declined, take
from foldahead_worker.playing.turns import Turn

FLUSH_S = 5.0
RESUME_S = 2.0
TURN_TIMEOUT_S = 120.0


class AgentFailed(FoldaheadError):
    """The process of a turn did not do its work."""


class Agent(Protocol):
    """Takes the turns of one session."""

    def take(self, turn: Turn, history: list[Any]) -> Taken:
        """Send the request of a turn, append the answer to the history, publish. Raises ProviderFailed."""
        ...

    def flush(self) -> bool:
        """Wait until all that was published is with Redis; whether it is."""
        ...

    def hear(self) -> None:
        """Fetch what has become ready."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


def chooser_of(task: Task) -> Chooser:
    """What decides how the stack makes this session's summaries."""
    return Chooser(OneKey("" if task.rules_only else "there is one"), rules_only=task.rules_only)


class LivingAgent:
    """One process, one session object, one list that grows."""

    def __init__(self, task: Task, recording: ImportedSession, frame: Frame) -> None:
        self._task = task
        self._recording = recording
        self._frame = frame
        self._provider = provider_for(frame, task.standin_url)
        self._chooser = chooser_of(task)
        self._fold = Foldahead(task.redis_url)
        self._history: list[Any] = []
        self._session = self._fold.session(
            task.name,
            workspace=task.workspace,
            dialect=recording.dialect,
            policy=policy_from(task.policy),
            parent=recording.parent or "",
        )

    def take(self, turn: Turn, history: list[Any]) -> Taken:
        """The turn, in this process."""
        self._history = history
        recorded = self._recording.messages[turn.sent : turn.answered]
        taken = take(self._session, self._frame, self._provider, turn, history, recorded)
        if not taken.due:
            return taken
        return msgspec.structs.replace(taken, declined=declined(self._session, self._task.workspace, self._chooser))

    def flush(self) -> bool:
        """Wait until all that was published is with Redis; whether it is."""
        return self._session.flush(FLUSH_S)

    def hear(self) -> None:
        """Fetch what has become ready, in place of hearing of it within a second."""
        self._session.resume(self._history, RESUME_S)

    def close(self) -> None:
        """Close the client, and the connection to the provider."""
        self._provider.close()
        self._fold.close()


class FreshAgent:
    """A web worker that loads its session for each request: the history comes from a SQLite file every time."""

    def __init__(self, task: Task, recording: ImportedSession, frame: Frame) -> None:
        self._task = task
        self._recording = recording
        self._frame = frame
        self._folder = tempfile.TemporaryDirectory(prefix="foldahead-history-")
        self._path = Path(self._folder.name) / "history.db"
        self._database = sqlite3.connect(self._path)
        self._database.execute("CREATE TABLE messages (position INTEGER PRIMARY KEY, json TEXT NOT NULL)")
        self._kept = 0

    def take(self, turn: Turn, history: list[Any]) -> Taken:
        """The turn, in a process that begins and ends with it. Raises AgentFailed."""
        self._keep(history)
        work = {
            "task": self._task,
            "turn": turn,
            "frame": self._frame,
            "parent": self._recording.parent or "",
            "recorded": self._recording.messages[turn.sent : turn.answered],
            "database": str(self._path),
        }
        ran = subprocess.run(
            [sys.executable, "-m", "foldahead_worker.playing.one_turn"],
            input=json_text(msgspec.to_builtins(work)).encode(),
            capture_output=True,
            timeout=TURN_TIMEOUT_S,
            check=False,
        )
        if ran.returncode:
            last = ran.stderr.decode("utf8", "replace").strip().splitlines()[-1:] or ["no word"]
            raise AgentFailed(f"turn {turn.number} of {self._task.session}: its process said {last[0]}")
        taken = msgspec.convert(json.loads(ran.stdout), Taken)
        history += taken.answer
        return taken

    def flush(self) -> bool:
        """The process of the turn has flushed before it ended."""
        return True

    def hear(self) -> None:
        """The next process asks when it begins."""

    def close(self) -> None:
        """Remove the history."""
        self._database.close()
        self._folder.cleanup()

    def _keep(self, history: list[Any]) -> None:
        rows = [(at, json_text(history[at])) for at in range(self._kept, len(history))]
        with self._database:
            self._database.executemany("INSERT INTO messages VALUES (?, ?)", rows)
        self._kept = len(history)


def agent_for(task: Task, recording: ImportedSession, frame: Frame) -> Agent:
    """The kind of agent that a task asks for."""
    return FreshAgent(task, recording, frame) if task.fresh_process else LivingAgent(task, recording, frame)


def member_of(task: Task) -> str:
    """The session's name in Redis."""
    return member(task.workspace, task.name)
