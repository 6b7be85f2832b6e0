"""All commands in one Typer app, and what becomes of their errors."""

import logging
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from foldahead_worker.cli.compact import compact
from foldahead_worker.cli.db import db
from foldahead_worker.cli.demo import demo
from foldahead_worker.cli.doctor import doctor
from foldahead_worker.cli.faults import fault_of, one_line
from foldahead_worker.cli.flower import flower
from foldahead_worker.cli.health import health
from foldahead_worker.cli.inspect import inspect
from foldahead_worker.cli.play import play
from foldahead_worker.cli.policy import policy
from foldahead_worker.cli.replay import replay
from foldahead_worker.cli.serve import watch, work
from foldahead_worker.cli.spend import resume, spend
from foldahead_worker.cli.status import status
from foldahead_worker.cli.top import top
from foldahead_worker.cli.up import up

HELP = """foldahead compacts long agent sessions before they fill up.

Agents publish token counts to Redis; a worker writes the summary ahead of time; the agent swaps it in on its next
turn and waits for nothing.

Start with `foldahead demo` (no key, no services), then `foldahead compact FILE` on a session of your own.
"""


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"foldahead {version('foldahead')}\n")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    pass


def make_cli() -> typer.Typer:
    """The app with every command."""
    cli = typer.Typer(
        name="foldahead",
        help=HELP,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    cli.callback()(_root)
    for command in (demo, compact, play, replay):
        cli.command(rich_help_panel="Try it")(command)
    for command in (up, watch, work, flower):
        cli.command(rich_help_panel="Run it")(command)
    for command in (status, top, inspect, health, doctor, spend, resume):
        cli.command(rich_help_panel="Look after it")(command)
    cli.add_typer(policy, name="policy", rich_help_panel="Look after it")
    cli.add_typer(db, name="db", rich_help_panel="Look after it")
    return cli


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit status. One line on standard error when it could not be done."""
    # What the rooms below remark is for the logs of the servers (`logs.py`), not for a person at a prompt.
    logging.getLogger("foldahead").addHandler(logging.NullHandler())
    command = typer.main.get_command(make_cli())
    try:
        result: object = command.main(list(arguments) or ["--help"], prog_name="foldahead", standalone_mode=False)
    except typer.TyperException as error:
        place = getattr(getattr(error, "ctx", None), "command_path", "foldahead")
        return _refuse(f"{error.format_message().rstrip('.')} ({place} --help says what there is)", error.exit_code)
    except typer.Abort:
        return _refuse("stopped", 130)
    except Exception as error:
        fault = fault_of(error)
        if fault is None:
            raise
        return _refuse(str(fault), fault.status)
    return result if isinstance(result, int) else 0


def _refuse(text: str, status: int) -> int:
    sys.stderr.write(f"foldahead: {one_line(text)}\n")
    return status
