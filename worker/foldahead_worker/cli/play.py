"""`foldahead play FILE...`: recorded sessions through the running stack."""

import contextlib
import secrets
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from foldahead_worker.cli.faults import BadInput
from foldahead_worker.cli.options import FormatOption, JsonOption, SetOption
from foldahead_worker.cli.play_report import LiveTable, print_result
from foldahead_worker.cli.policies import policy_of, values_from
from foldahead_worker.cli.printing import print_json, print_notes
from foldahead_worker.cli.running import play_side_by_side
from foldahead_worker.cli.stopping import stop_in_order
from foldahead_worker.importers import ImportResult, load, pick
from foldahead_worker.playing.hearing import Hearing
from foldahead_worker.playing.plays import Task
from foldahead_worker.playing.result import session_object, totals_object
from foldahead_worker.settings import Settings, names_a_redis, read_settings

MOST_JOBS = 64
BOOKS_S = 2.0
"""What a worker did is told a moment after the session has it."""


def play(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Recorded sessions.", show_default=False)],
    as_json: JsonOption = False,
    jobs: Annotated[
        int, typer.Option(min=1, max=MOST_JOBS, metavar="N", help="Sessions side by side, a process each.")
    ] = 2,
    turn_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="S",
            show_default=False,
            help="Keep this pace and wait for nothing, as an agent does. Without it each turn waits until what was "
            "asked for is ready or has failed, so that runs repeat.",
        ),
    ] = None,
    summary_seconds: Annotated[
        float | None,
        typer.Option(min=0.0, metavar="S", show_default=False, help="Make every summary take this much longer."),
    ] = None,
    fresh_process: Annotated[
        bool,
        typer.Option(
            "--fresh-process",
            help="A new process for every turn, which loads the history from a database and resumes.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            help="Write every request that the agent would have sent: {dialect, session, turn, request}.",
        ),
    ] = None,
    settings: SetOption = None,
    session: Annotated[
        list[str] | None,
        typer.Option("--session", metavar="NAME", show_default=False, help="Only this session; may be repeated."),
    ] = None,
    format: FormatOption = "auto",  # noqa: A002 - the option's name
    workspace: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Workspace of the sessions: a second run in the same one finds the summaries of the first. "
            "A new one for each run if none is given.",
        ),
    ] = None,
) -> None:
    """Play recorded sessions, turn by turn, through the running stack: client, Redis, watcher, worker, database.

    FILE is a Claude Code session log (.jsonl), an Anthropic request, an OpenAI chat list, or a trajectory. With
    `FOLDAHEAD_REDIS_URL` the stack behind that Redis is used; without it one is started here and stopped at the end.
    No provider is called for the agent's turns: the recording says what was answered.

    Examples:

        foldahead play ~/.claude/projects/app/*.jsonl
        foldahead play chat.json --set threshold_tokens=20000 --json
        foldahead play run.jsonl --turn-seconds 1 --summary-seconds 5
        foldahead play run.jsonl --out requests/ --fresh-process
    """
    policy_of(settings or ())
    chosen = _recordings(files, format, session or [])
    base = _base_task(workspace, values_from(settings or ()), turn_seconds, fresh_process=fresh_process, out=out)
    stop_in_order()
    with _stack(summary_seconds) as (running, check):
        rules = running.summarizer == "extract" or not running.anthropic_api_key
        base = msgspec.structs.replace(base, redis_url=running.redis_url, rules_only=rules)
        result = _play(_tasks(base, chosen, format), jobs, check, quiet=as_json)
    print_notes(note for imported in chosen for note in _notes(imported))
    if as_json:
        print_json(result)
    else:
        print_result(result)


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


@contextlib.contextmanager
def _stack(summary_s: float | None) -> Generator[tuple[Settings, Callable[[], None]]]:
    """The settings of a stack that runs, the user's or our own for as long as this takes; and a check that it does."""
    # Imported here: what starts servers is not needed to say that a file is broken.
    from foldahead_worker.cli.reaching import expect_stack
    from foldahead_worker.stack import private_stack

    settings = read_settings()
    if names_a_redis():
        if summary_s is not None:
            raise BadInput(
                "--summary-seconds slows the worker of a stack that play starts itself: unset FOLDAHEAD_REDIS_URL, "
                "or start the worker with FOLDAHEAD_SUMMARY_DELAY_S"
            )
        expect_stack(settings)
        yield settings, lambda: None
        return
    own = msgspec.structs.replace(settings, summary_delay_s=summary_s or settings.summary_delay_s)
    with private_stack(own) as stack:
        yield stack.settings, stack.check


def _play(tasks: list[Task], jobs: int, check: Callable[[], None], *, quiet: bool) -> dict[str, Any]:
    if not tasks:
        raise BadInput("no session in these files")
    began_s = time.monotonic()
    hearing = Hearing(tasks[0].redis_url, tasks[0].workspace)
    with LiveTable(tasks, quiet=quiet) as table:
        played = play_side_by_side(tasks, jobs, table.note, table.done, check)
    hearing.listen_to_the_end(BOOKS_S)
    heard = [hearing.heard(one.name) for one in played]
    hearing.close()
    return {
        "sessions": [session_object(one, said) for one, said in zip(played, heard, strict=True)],
        "totals": totals_object(played, heard, time.monotonic() - began_s),
    }


def _notes(imported: ImportResult) -> Iterator[str]:
    for note in imported.notes:
        yield f"{imported.file}: {note}"
