"""`foldahead top`: what is going on, live."""

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from foldahead_worker.cli.faults import one_line
from foldahead_worker.cli.figures import ago, short
from foldahead_worker.cli.printing import out

if TYPE_CHECKING:
    from foldahead_worker.overview import Overview, SessionLine

BAR_CELLS = 20
ROWS_ELSEWHERE = 14
"""Lines of the screen that are not sessions."""
LEAST_ROWS = 5


def top(
    every: Annotated[float, typer.Option("--every", min=0.2, metavar="SECONDS", help="How often to look.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one screen and exit; so does a pipe.")] = False,
) -> None:
    """Watch the service live: sessions near their thresholds, the queue, spend, what went wrong. Ctrl-C ends it.

    It only reads. Of more than 5,000 sessions it looks at some.
    """
    # Imported here: the database takes most of a second, which no other command is to wait for.
    from foldahead_worker.cli.reaching import reach_redis
    from foldahead_worker.overview import take_overview
    from foldahead_worker.readings import faults_of
    from foldahead_worker.settings import read_settings
    from foldahead_worker.store import open_store
    from foldahead_worker.switchboard import Switchboard

    settings = read_settings()
    client = reach_redis(settings)
    store = open_store(settings.database_url)
    switchboard, console = Switchboard(client), out()

    def look() -> RenderableType:
        overview = take_overview(store, switchboard, _rows(console))
        return screen(overview, faults_of(overview.reading, settings.health_due_s))

    try:
        if once or not sys.stdout.isatty():
            console.print(look())
            return
        with Live(look(), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(look(), refresh=True)
    except KeyboardInterrupt:
        return
    finally:
        store.close()
        client.close()


def screen(overview: "Overview", faults: Sequence[str]) -> RenderableType:
    """One screen; `faults`: what is wrong with the service, in words."""
    reading = overview.reading
    shown = "" if overview.all_seen else " (there are more)"
    head = Table.grid(padding=(0, 3))
    head.add_row(
        Text(f"{overview.sessions_seen:,} session{'s' * (overview.sessions_seen != 1)}{shown}", style="title"),
        f"{reading.waiting.get('armed', 0):,} want a look",
        f"{reading.queued:,} jobs queued, {reading.leased:,} under way",
        Text(f"oldest due {ago(int(reading.oldest_due_s * 1000))}", style="bad" if faults else ""),
        f"${overview.usd_today:.4f} today",
    )
    parts: list[RenderableType] = [head, Text()]
    parts += [Text(f"! {fault}", style="bad") for fault in faults]
    parts.append(_sessions(overview))
    if overview.failures:
        parts += [Text(), _failures(overview)]
    return Group(*parts)


def _sessions(overview: "Overview") -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("workspace", "session"):
        table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=28)
    table.add_column("pending", justify="right")
    table.add_column("of its threshold", no_wrap=True)
    table.add_column("turns", justify="right")
    table.add_column("idle", justify="right")
    table.add_column("state", overflow="ellipsis", no_wrap=True)
    for line in overview.sessions:
        table.add_row(
            Text(one_line(line.workspace)),
            Text(one_line(line.session)),
            short(line.pending_tokens),
            _bar(line),
            str(line.turns),
            ago(int(line.idle_s * 1000)),
            Text(one_line(line.state), style=_style(line)),
        )
    return table


def _bar(line: "SessionLine") -> Text:
    filled = min(BAR_CELLS, round(line.part * BAR_CELLS))
    style = "bad" if line.part > 1.5 else "warn" if line.part >= 1 else "good"
    return Text.assemble(("█" * filled, style), ("░" * (BAR_CELLS - filled), "faint"), f" {line.part:.0%}")


def _style(line: "SessionLine") -> str:
    if line.state.startswith(("failed", "at its hard cap")):
        return "bad"
    return "ours" if line.state == "a summary is being made" else "faint"


def _failures(overview: "Overview") -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, title="what went wrong last", title_justify="left")
    for failure in overview.failures:
        at = datetime.fromtimestamp(failure.at_ms / 1000, UTC).strftime("%H:%M:%S")
        who = one_line(f"{failure.workspace}/{failure.session}")
        table.add_row(Text(at, style="faint"), Text(who), Text(one_line(failure.what), style="bad"))
    return table


def _rows(console: Console) -> int:
    return max(LEAST_ROWS, console.size.height - ROWS_ELSEWHERE)
