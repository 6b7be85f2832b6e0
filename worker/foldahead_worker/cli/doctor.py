"""`foldahead doctor`: what is wrong, and what to do about it."""

import time

import typer
from rich.table import Table
from rich.text import Text

from foldahead_worker.cli.faults import Unavailable, one_line
from foldahead_worker.cli.options import JsonOption
from foldahead_worker.cli.printing import out, print_json

_MARKS = {"ok": ("ok", "good"), "warn": ("look", "warn"), "bad": ("wrong", "bad")}


def doctor(as_json: JsonOption = False) -> None:
    """Look at everything that the service stands on, and say what to do about what is wrong.

    Redis (version, eviction, persistence, memory, clock, rights, functions), the database and its tables, workers and
    watchers and their versions, keys, models and prices, and whether the work is done. It changes nothing and asks no
    provider. Exit status 1: something is wrong.

    Examples:

        foldahead doctor
        foldahead doctor --json | jq '.findings[] | select(.grade != "ok")'
    """
    # Imported here: the database and Celery take most of a second, which no other command is to wait for.
    from foldahead_worker.cli.reaching import workers_alive
    from foldahead_worker.doctor.visit import Visit, as_object
    from foldahead_worker.settings import read_settings

    settings = read_settings()
    try:
        workers: list[str] | None = workers_alive(settings)
    except Unavailable:
        workers = None
    findings = Visit(settings, workers, time.time_ns() // 1_000_000).findings()
    wrong = sum(finding.grade == "bad" for finding in findings)
    if as_json:
        print_json({"wrong": wrong, "findings": [as_object(finding) for finding in findings]})
    else:
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for finding in findings:
            mark, style = _MARKS[finding.grade]
            table.add_row(Text(mark, style=style), Text(finding.about, style="faint"), Text(one_line(finding.said)))
            if finding.advice:
                table.add_row("", "", Text(f"-> {one_line(finding.advice)}", style=style))
        out().print(table)
        out().print(Text(f"{wrong} wrong" if wrong else "nothing is wrong", style="bad" if wrong else "good"))
    if wrong:
        raise typer.Exit(1)
