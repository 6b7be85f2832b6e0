"""`python -m foldahead_worker.playing.one_turn`: one turn of a session in a process of its own.

Standard input: JSON {task, turn, frame, parent, recorded, database}. Standard output: what the turn came to, JSON.
"""

import json
import sqlite3
import sys
from typing import Any

import msgspec

from foldahead import Foldahead
from foldahead.core.policy import policy_from
from foldahead_worker.json_out import json_text
from foldahead_worker.playing.clients import FLUSH_S, RESUME_S, chooser_of
from foldahead_worker.playing.frame import Frame
from foldahead_worker.playing.plays import Task
from foldahead_worker.playing.providers import provider_for
from foldahead_worker.playing.taking import Taken, declined, take
from foldahead_worker.playing.turns import Turn


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One turn to be taken. The history is in the database."""

    task: Task
    turn: Turn
    frame: Frame
    parent: str
    recorded: list[dict[str, Any]]
    database: str


def main() -> None:
    """Take the turn."""
    work = msgspec.convert(json.load(sys.stdin.buffer), Work)
    sys.stdout.write(json_text(msgspec.to_builtins(taken_of(work))))


def taken_of(work: Work) -> Taken:
    """What an agent does that has never seen this session: load, resume, send, append the answer, publish, flush."""
    task, turn = work.task, work.turn
    history = load_messages(work.database, turn.sent)
    fold = Foldahead(task.redis_url)
    provider = provider_for(work.frame, task.standin_url)
    session = fold.session(
        task.name,
        workspace=task.workspace,
        dialect=work.frame.dialect,
        policy=policy_from(task.policy),
        parent=work.parent,
    )
    session.resume(history, RESUME_S)
    taken = take(session, work.frame, provider, turn, history, work.recorded)
    session.flush(FLUSH_S)
    why = declined(session, task.workspace, chooser_of(task)) if taken.due else ""
    provider.close()
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
