"""One JSON value, whatever it is: a list of messages, a request, a trajectory, or runs of any of these."""

from __future__ import annotations

from typing import Any

from foldahead_worker.importers import chat, foreign, trajectory
from foldahead_worker.importers.errors import BadMessage, UnknownFormat
from foldahead_worker.importers.langchain import are_langchains
from foldahead_worker.importers.messages import looks_like_one
from foldahead_worker.importers.notes import Notes
from foldahead_worker.importers.session import ImportedSession, unique
from foldahead_worker.importers.shape import is_array, is_object, named, text_at

ACCEPTED = (
    "a Claude Code log (JSONL), an Anthropic request body, or OpenAI chat (or LangChain) messages as a list, "
    "a trajectory or a list of runs"
)
MESSAGE_KEYS = ("messages", "traj", "history", "trajectory")
RUN_KEYS = ("simulations", "runs", "results", "sessions")
# Where other APIs' requests keep theirs: named, if they are of a known kind.
FOREIGN_KEYS = ("input", "contents")
# Beside `messages`, these say that a harness wrote it.
HARNESS_KEYS = frozenset({"trajectory_format", "info", "reward_info", "simulation_id", "termination_reason"})


def sessions_of(value: Any, name: str, wanted: str, notes: Notes) -> list[ImportedSession]:
    """The sessions in a document. Raises UnknownFormat or BadMessage, saying what was found and where."""
    if is_array(value):
        if _is_runs(value):
            return _runs(value, "", {}, wanted, notes)
        return [chat.session_of(value, {}, name, "messages", wanted, notes)]
    if not is_object(value):
        raise UnknownFormat(f"holds {named(value)}; expected {ACCEPTED}")
    found = messages_key(value)
    if found:
        return [run_of(value, found, name, found, wanted, notes)]
    request = value.get("request")
    if is_object(request) and is_array(request.get("messages")):  # what `foldahead play --out` writes
        return [_own_request(value, request, name, wanted, notes)]
    for key in RUN_KEYS:
        runs = value.get(key)
        if is_array(runs) and _is_runs(runs):
            return _runs(runs, key, value, wanted, notes)
    for key in FOREIGN_KEYS:
        foreign.refuse(value.get(key))
    raise UnknownFormat(f"holds {named(value)}; expected {ACCEPTED}")


def messages_key(value: dict[str, Any]) -> str | None:
    """The key under which an object keeps its messages: one whose list has a message in it, else any list."""
    lists = [key for key in MESSAGE_KEYS if is_array(value.get(key))]
    for key in lists:
        if any(looks_like_one(entry) for entry in value[key]):
            return key
    return lists[0] if lists and lists[0] != "trajectory" else None


def run_of(run: dict[str, Any], key: str, name: str, at: str, wanted: str, notes: Notes) -> ImportedSession:
    """The session in an object that keeps its messages under `key`."""
    by_a_harness = key != "messages" or not HARNESS_KEYS.isdisjoint(run)
    read = trajectory.session_of if by_a_harness and not are_langchains(run[key]) else chat.session_of
    return read(run[key], run, name, at, wanted, notes)


def label_of(run: dict[str, Any]) -> str | None:
    """How a run names itself."""
    if "task_id" in run and "trial" in run and "id" not in run:
        return f"task{run['task_id']}/trial{run['trial']}"
    return text_at(run, "id", "instance_id", "session_id", "session", "name")


def _own_request(
    value: dict[str, Any], request: dict[str, Any], name: str, wanted: str, notes: Notes
) -> ImportedSession:
    body = {**request, "dialect": value.get("dialect")}
    return chat.session_of(request["messages"], body, name, "request.messages", wanted, notes)


def _is_runs(values: list[Any]) -> bool:
    """A list of runs: its first entry is a list, or an object that keeps messages (and is none itself)."""
    if not values or looks_like_one(values[0]):
        return False
    return is_array(values[0]) or (is_object(values[0]) and messages_key(values[0]) is not None)


def _runs(runs: list[Any], at: str, around: dict[str, Any], wanted: str, notes: Notes) -> list[ImportedSession]:
    """Every run that can be read; the others are noted. Raises the first one's fault when none can."""
    sessions: list[ImportedSession] = []
    taken: set[str] = set()
    first_fault: BadMessage | None = None
    for index, run in enumerate(runs):
        try:
            sessions.append(_run(run, index, f"{at}[{index}]", around, wanted, notes, taken))
        except BadMessage as fault:
            first_fault = first_fault or fault
            notes.add(f"{fault}; this run is passed over")
    if first_fault and not sessions:
        raise first_fault
    return sessions


def _run(
    run: Any, index: int, at: str, around: dict[str, Any], wanted: str, notes: Notes, taken: set[str]
) -> ImportedSession:
    foreign.refuse(run)
    if is_array(run):
        return chat.session_of(run, around, unique(f"run{index}", taken), at, wanted, notes)
    key = messages_key(run) if is_object(run) else None
    if not is_object(run) or key is None:
        raise BadMessage(f"{at}: {named(run)}; expected a run with a list of messages")
    body = {**around, **run}
    return run_of(body, key, unique(label_of(run) or f"run{index}", taken), f"{at}.{key}", wanted, notes)
