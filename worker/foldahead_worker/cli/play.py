"""`foldahead play FILE...`: recorded sessions through the running stack."""

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from foldahead_worker.cli.faults import BadInput
from foldahead_worker.cli.options import FormatOption, JsonOption, SetOption
from foldahead_worker.cli.play_options import (
    FilesArgument,
    FreshProcessOption,
    JobsOption,
    ModelOption,
    OutOption,
    SessionsOption,
    SummarySecondsOption,
    TurnSecondsOption,
    WorkspaceOption,
)
from foldahead_worker.cli.play_report import LiveTable, print_result
from foldahead_worker.cli.play_stack import Running, fake_model, running_stack
from foldahead_worker.cli.policies import policy_of, values_from
from foldahead_worker.cli.printing import print_json, print_notes
from foldahead_worker.cli.running import play_side_by_side
from foldahead_worker.cli.stopping import stop_in_order
from foldahead_worker.importers import ImportResult, load, pick
from foldahead_worker.playing.hearing import Hearing
from foldahead_worker.playing.plays import Task, spread
from foldahead_worker.playing.result import session_object, totals_object

BOOKS_S = 2.0
"""What a worker did is told a moment after the session has it."""


def play(
    files: FilesArgument,
    as_json: JsonOption = False,
    jobs: JobsOption = 2,
    turn_seconds: TurnSecondsOption = None,
    summary_seconds: SummarySecondsOption = None,
    model: ModelOption = None,
    fresh_process: FreshProcessOption = False,
    out: OutOption = None,
    settings: SetOption = None,
    session: SessionsOption = None,
    format: FormatOption = "auto",  # noqa: A002 - the option's name
    workspace: WorkspaceOption = None,
) -> None:
    """Play recorded sessions, turn by turn, through the running stack: client, Redis, watcher, worker, database.

    FILE is a Claude Code session log (.jsonl), an Anthropic request, an OpenAI chat list, a trajectory, or
    LangChain's messages. With `FOLDAHEAD_REDIS_URL` the stack behind that Redis is used; without it one is started here
    and stopped at the end. No provider is called for the agent's turns: the recording says what was answered. `--model
    fake` tries the paid path without a key: a stand-in writes the summaries, bills them, and refuses what the Claude
    API would refuse.

    Examples:

        foldahead play ~/.claude/projects/app/*.jsonl
        foldahead play run.jsonl --model fake --set threshold_tokens=20000 --json
        foldahead play run.jsonl --turn-seconds 1 --summary-seconds 5
        foldahead play run.jsonl --out requests/ --fresh-process
    """
    policy_of(settings or ())  # raises what is wrong with it
    agent_model = fake_model(model)
    chosen = _recordings(files, format, session or [])
    base = _base_task(workspace, values_from(settings or ()), turn_seconds, fresh_process=fresh_process, out=out)
    tasks = _tasks(msgspec.structs.replace(base, agent_model=agent_model or ""), chosen, format)
    stop_in_order()
    with running_stack(summary_seconds, fake=agent_model is not None) as running:
        result = _play(tasks, jobs, running, quiet=as_json)
    print_notes(note for imported in chosen for note in _notes(imported))
    (print_json if as_json else print_result)(result)


def _recordings(files: list[Path], format: str, names: list[str]) -> list[ImportResult]:  # noqa: A002
    """What is in the files, all of them read before anything is started. Raises UnreadableFile, BadInput."""
    results = [load(file, format) for file in files]
    if not names:
        return results
    chosen: list[ImportResult] = []
    for result in results:
        kept = tuple(one for one in result.sessions if one.name in names)
        if kept:
            chosen.append(msgspec.structs.replace(result, sessions=kept))
    for name in names:
        if not any(one.name == name for result in chosen for one in result.sessions):
            pick(results[0], name) if len(results) == 1 else _refuse_name(results, name)
    return chosen


def _refuse_name(results: list[ImportResult], name: str) -> None:
    held = [one.name for result in results for one in result.sessions]
    raise BadInput(f"no file has a session {name!r}; they hold: {', '.join(held[:20])}")


def _base_task(
    workspace: str | None,
    policy: dict[str, Any],
    turn_s: float | None,
    *,
    fresh_process: bool,
    out: Path | None,
) -> Task:
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"--out {out}: cannot be made: {error.strerror}") from error
    return Task(
        file="",
        format="auto",
        session="",
        label="",
        name="",
        workspace=workspace or f"play-{secrets.token_hex(4)}",
        redis_url="",
        policy=policy,
        turn_s=turn_s,
        fresh_process=fresh_process,
        out="" if out is None else str(out.resolve()),
    )


def _tasks(base: Task, chosen: list[ImportResult], format: str) -> list[Task]:  # noqa: A002
    """One task for each session. Labels are unique in a run, names in a workspace however often it is played in."""
    run = secrets.token_hex(3)
    tasks: list[Task] = []
    taken: set[str] = set()
    for result in chosen:
        for one in result.sessions:
            stem = Path(result.file).stem
            label = wanted = one.name if one.name == stem else f"{stem}/{one.name}"
            while label in taken:
                label = f"{wanted}#{len(taken) + 1}"
            taken.add(label)
            task = {"file": result.file, "format": format, "session": one.name, "label": label}
            tasks.append(msgspec.structs.replace(base, **task, name=f"{label}@{run}"))
    return tasks


def _play(tasks: list[Task], jobs: int, running: Running, *, quiet: bool) -> dict[str, Any]:
    if not tasks:
        raise BadInput("no session in these files")
    known = {
        "redis_url": running.settings.redis_url,
        "rules_only": running.rules_only,
        "standin_url": running.standin_url,
    }
    tasks = spread([msgspec.structs.replace(task, **known) for task in tasks], jobs)
    began_s = time.monotonic()
    hearing = Hearing(running.settings.redis_url, tasks[0].workspace)
    with LiveTable(tasks, quiet=quiet) as table:
        played = play_side_by_side(tasks, jobs, table.note, table.done, running.check)
    hearing.listen_to_the_end(BOOKS_S)
    heard = [hearing.heard(one.name) for one in played]
    hearing.close()
    bill = running.bill()
    return {
        "sessions": [session_object(one, said) for one, said in zip(played, heard, strict=True)],
        "totals": totals_object(played, heard, time.monotonic() - began_s)
        | (msgspec.to_builtins(bill) if bill is not None else {}),
    }


def _notes(imported: ImportResult) -> Iterator[str]:
    for note in imported.notes:
        yield f"{imported.file}: {note}"
