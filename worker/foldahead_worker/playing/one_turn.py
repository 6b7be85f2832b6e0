"""`python -m foldahead_worker.playing.one_turn`: one turn of a session in a process of its own.

Standard input: JSON {task, turn, recording, database}. Standard output: what the turn came to, JSON.
"""

import json
import sqlite3
import sys
from typing import Any

import msgspec

from foldahead import Foldahead
from foldahead.core.policy import policy_from
from foldahead_worker.importers import ImportedSession
from foldahead_worker.json_out import json_text
from foldahead_worker.playing.clients import FLUSH_S, RESUME_S, chooser_of
from foldahead_worker.playing.plays import Task
from foldahead_worker.playing.taking import Taken, declined, send, tell
from foldahead_worker.playing.turns import Turn


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One turn to be taken. `recording` holds no messages: they are in the database."""

    task: Task
    turn: Turn
    recording: ImportedSession
    database: str


def main() -> None:
    """Take the turn."""
    work = msgspec.convert(json.load(sys.stdin.buffer), Work)
    sys.stdout.write(json_text(msgspec.to_builtins(take(work))))


def take(work: Work) -> Taken:
    """What an agent does that has never seen this session: load, resume, send, answer, publish, flush."""
    task, turn = work.task, work.turn
    messages = load_messages(work.database, turn.answered)
    history = messages[: turn.sent]
    fold = Foldahead(task.redis_url)
    session = fold.session(
        task.name,
        workspace=task.workspace,
        dialect=work.recording.dialect,
        policy=policy_from(task.policy),
        parent=work.recording.parent or "",
    )
    session.resume(history, RESUME_S)
    taken = send(session, work.recording, turn, history)
    history += messages[turn.sent :]
    tell(session, taken, turn, history)
    session.flush(FLUSH_S)
    why = declined(session, task.workspace, chooser_of(task)) if taken.due else ""
    fold.close()
    return msgspec.structs.replace(taken, declined=why)


def load_messages(database: str, count: int) -> list[Any]:
    """The first messages of the history."""
    connection = sqlite3.connect(database)
    rows = connection.execute("SELECT json FROM messages WHERE position < ? ORDER BY position", (count,))
    messages = [json.loads(row[0]) for row in rows]
    connection.close()
    return messages


if __name__ == "__main__":
    main()
