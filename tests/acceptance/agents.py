"""Agents that run in processes of their own: called through `new_processes`, or as a script by test_processes.py.

python -m tests.acceptance.agents prefork|exit URL
"""

import os
import sys
from typing import Any

from foldahead import Foldahead
from tests.conversations import POLICY, add_turn, conversation, is_compacted
from tests.waiting import wait_until

_folds: dict[str, Foldahead] = {}


def turn_of_a_lasting_process(url: str, name: str, history: list[Any], turn: int) -> tuple[list[Any], list[Any]]:
    """One turn in a process that goes on: the view that was sent, and the history after it."""
    fold = _folds.setdefault(url, Foldahead(url))
    session = fold.session(name, workspace="alternating", policy=POLICY)
    session.resume(history, timeout=5)
    view = [*session.view(history)]
    add_turn(history, turn)
    session.publish(history)
    assert session.flush(5)
    return view, history


def view_of(url: str, workspace: str, name: str, history: list[Any]) -> list[Any]:
    """What a process shows that has only just heard of the session."""
    fold = Foldahead(url)
    session = fold.session(name, workspace=workspace, policy=POLICY)
    session.resume(history, timeout=5)
    view = [*session.view(history)]
    assert session.flush(5)
    fold.close()
    return view


def publish_anew(url: str, workspace: str, name: str, history: list[Any]) -> None:
    """Publish once, as a replica that knows nothing of what others published, and end."""
    fold = Foldahead(url)
    fold.session(name, workspace=workspace, policy=POLICY).publish(history)
    assert fold.flush(5)
    fold.close()


def until_compacted(fold: Foldahead, name: str) -> None:
    """A whole agent: publishes a long session and waits until its view shows a summary."""
    session, history = fold.session(name, workspace="prefork", policy=POLICY), conversation(18, name)
    session.publish(history)

    def compacted() -> bool:
        session.resume(history, timeout=1)
        return is_compacted(session.view(history))

    wait_until(compacted)


def prefork(url: str) -> None:
    """A server that has a link, forks, and goes on beside its children; all share one `Foldahead`."""
    fold = Foldahead(url)
    fold.session("before", workspace="prefork", policy=POLICY).publish(conversation(2))
    assert fold.flush(5)
    children: list[int] = []
    for at in range(3):
        pid = os.fork()
        if pid == 0:
            until_compacted(fold, f"child-{at}")
            sys.exit(0)
        children.append(pid)
    until_compacted(fold, "parent")
    statuses = [os.waitpid(pid, 0)[1] for pid in children]
    sys.exit(int(any(statuses)))


def leave(url: str) -> None:
    """Publish and end at once, without a word to the link."""
    fold = Foldahead(url)
    fold.session("leaver", workspace="leave", policy=POLICY).publish(conversation(18, "leaver"))


if __name__ == "__main__":
    {"prefork": prefork, "exit": leave}[sys.argv[1]](sys.argv[2])
