"""`foldahead spend` and `foldahead resume`: what summaries cost, and letting a stopped workspace go on."""

import re
import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from foldahead_worker.cli.faults import BadInput
from foldahead_worker.cli.printing import out, print_json
from foldahead_worker.settings import accounts_of, make_state_directory, read_settings

if TYPE_CHECKING:
    from foldahead_worker.spending import Report

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def spend(
    workspace: Annotated[str | None, typer.Option(help="Only this workspace.")] = None,
    session: Annotated[str | None, typer.Option(help="Only this session.")] = None,
    since: Annotated[str, typer.Option(help="From this UTC day on, as in 2026-11-29.")] = "",
    json: Annotated[bool, typer.Option("--json", help="One JSON object, to the picodollar.")] = False,
) -> None:
    """Say what summaries cost, by workspace, session, model and kind.

    Money that is reserved for calls under way counts as spent.

        foldahead spend --workspace acme --since 2026-11-01
    """
    # Imported here, as in every command: the database and Celery take most of a second.
    from foldahead_worker.spending import report_spend
    from foldahead_worker.store import open_store

    if since and not _DAY.fullmatch(since):
        raise BadInput(f"--since: expected a day as in 2026-11-29, got {since!r}")
    settings = read_settings()
    make_state_directory()
    store = open_store(settings.database_url)
    try:
        report = report_spend(store, workspace=workspace, session=session, since_day=since)
    finally:
        store.close()
    if json:
        print_json(msgspec.to_builtins(report))
    else:
        out().print(_table(report))


def resume(workspace: Annotated[str, typer.Argument(help="The workspace that is to go on.")]) -> None:
    """Let a workspace go on whose provider refused its account (401, 402, 403, a spend limit).

    It goes on by itself when its key changes.
    """
    from foldahead_worker.cli.reaching import reach_redis
    from foldahead_worker.gate import Gate

    settings = read_settings()
    client = reach_redis(settings)
    try:
        was_stopped = Gate(client, accounts_of(settings)).resume(workspace)
    finally:
        client.close()
    sys.stdout.write(f"{workspace}: {'goes on' if was_stopped else 'was not stopped'}\n")


def _table(report: "Report") -> Table:
    table = Table(show_footer=True, box=None)
    table.add_column("workspace", footer="in all")
    for name in ("session", "model", "kind"):
        table.add_column(name)
    table.add_column("calls", justify="right")
    table.add_column("input", justify="right")
    table.add_column("output", justify="right")
    table.add_column("USD", footer=f"{report.cost_usd:.6f}", justify="right")
    for row in report.rows:
        counts = (row.calls, row.input_tokens, row.output_tokens)
        names = (row.workspace, row.session, row.model, row.kind)
        table.add_row(*names, *(f"{count:,}" for count in counts), f"{row.cost_usd:.6f}")
    return table
