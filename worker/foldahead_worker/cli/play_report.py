"""What `foldahead play` shows to people: what is being played, and what came of it."""

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from foldahead_worker.cli.faults import one_line
from foldahead_worker.cli.figures import share, short
from foldahead_worker.cli.printing import err, out
from foldahead_worker.playing.plays import Progress as Played
from foldahead_worker.playing.plays import SessionPlayed, Task

NAME_CHARS = 28
FEW = 5


class LiveTable:
    """Progress on standard error: bars on a terminal, else a line for each session that is done. A context manager."""

    def __init__(self, tasks: Sequence[Task], *, quiet: bool) -> None:
        self._console = err()
        self._lines = not self._console.is_terminal and not quiet
        self._lock = threading.Lock()
        self._bars: dict[str, TaskID] = {}
        self._done = 0
        self._sessions = len(tasks)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._all = self._progress.add_task("sessions", total=self._sessions, news="")

    def note(self, played: Played) -> None:
        """One turn more."""
        with self._lock:
            bar = self._bars.get(played.label)
            if bar is None:
                name = played.label if len(played.label) <= NAME_CHARS else f"{played.label[: NAME_CHARS - 3]}..."
                bar = self._bars[played.label] = self._progress.add_task(name, total=played.turns, news="")
            saved = share(played.tokens_sent, played.tokens_sent_without)
            news = f"{played.swaps} swaps  {saved:>5}" if played.swaps else ""
            self._progress.update(bar, completed=played.turn, news=news)

    def done(self, played: SessionPlayed) -> None:
        """One session more."""
        with self._lock:
            self._done += 1
            self._progress.update(self._all, completed=self._done)
            if (bar := self._bars.pop(played.label, None)) is not None:
                self._progress.remove_task(bar)
        if self._lines:
            sys.stderr.write(
                f"{self._done}/{self._sessions} {one_line(played.label)}: {played.turns} turns, "
                f"{len(played.swaps)} swaps\n"
            )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


def print_result(result: dict[str, Any]) -> None:
    """The table of all sessions, what is to be said of some, and the sum."""
    console = out()
    console.print()
    console.print(_table(result["sessions"], result["totals"]))
    for session in result["sessions"]:
        _print_remarks(console, session)
    _print_sum(console, result["totals"])
    console.print()


def _table(sessions: Sequence[dict[str, Any]], totals: dict[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="faint", show_footer=len(sessions) > 1)
    table.add_column("file", "together", overflow="ellipsis", no_wrap=True, max_width=22)
    table.add_column("session", overflow="ellipsis", no_wrap=True, max_width=13)
    saved = Text(share(totals["tokens_sent"], totals["tokens_sent_without"]), style="good")
    figures: list[tuple[str, str | Text]] = [
        ("turns", f"{totals['turns']:,}"),
        ("swaps", f"{totals['swaps']:,}"),
        ("sent", short(totals["tokens_sent"])),
        ("without", short(totals["tokens_sent_without"])),
        ("saved", saved),
        ("worst ms", f"{totals['added_ms_max']:.1f}"),
    ]
    for name, total in figures:
        table.add_column(name, total, justify="right", no_wrap=True, min_width=max(len(name), 5))
    for session in sessions:
        table.add_row(
            one_line(Path(session["file"]).name),
            one_line(session["session"]),
            f"{session['turns']:,}",
            f"{len(session['swaps']):,}",
            short(session["tokens_sent"]),
            short(session["tokens_sent_without"]),
            Text(share(session["tokens_sent"], session["tokens_sent_without"]), style="good"),
            f"{session['added_ms_max']:.1f}",
        )
    return table


def _print_remarks(console: Console, session: dict[str, Any]) -> None:
    remarks: list[tuple[str, str]] = [("bad", f"not valid: {fault}") for fault in session["validity_faults"][:FEW]]
    remarks += [
        ("warn", f"turn {one['turn']}: at the hard cap with nothing ready, {one['how']}")
        for one in session["degraded"][:FEW]
    ]
    late = [swap["turn"] for swap in session["swaps"] if not swap["ready_before_needed"]]
    if late:
        remarks.append(("warn", f"late: the summary was not ready when it was needed (turn {late[0]})"))
    remarks += [("", f"no swap: {reason}") for reason in session["not_worth_it"][:FEW]]
    remarks += [("warn", f"no summary: {reason}") for reason in session["failed"][:FEW]]
    remarks += [("faint", note) for note in session["notes"][:FEW]]
    if not remarks:
        return
    console.print()
    console.print(Text(one_line(f"{Path(session['file']).name}  {session['session']}"), style="title"))
    for style, remark in remarks:
        console.print(Text(f"  {one_line(remark)}", style=style))


def _print_sum(console: Console, totals: dict[str, Any]) -> None:
    console.print()
    parts = [
        f"{totals['paid']} summaries made, {totals['reused']} reused",
        f"${totals['cost_usd']:.4f}" if totals["cost_usd"] else "nothing paid",
        f"a turn without a swap waited {totals['no_swap_added_ms']['p50']:.2f} ms "
        f"(p99 {totals['no_swap_added_ms']['p99']:.2f})",
    ]
    console.print(Text("; ".join(parts), style="faint"))
    if "booked_usd" in totals:
        _print_bill(console, totals)
    ours = totals["validity_faults"]
    said = "every request was valid" if not ours else f"{ours} faults of ours in what was sent"
    console.print(Text(said, style="bad" if ours else "good"))


def _print_bill(console: Console, totals: dict[str, Any]) -> None:
    """What the stand-in of the Claude API says, and foldahead's books."""
    refused, billed, booked = totals["refused"], totals["billed_usd"], totals["booked_usd"]
    said = f"{totals['requests']:,} requests sent, {refused:,} refused"
    console.print(Text(f"the stand-in: {said}", style="bad" if refused else "good"))
    bill = "no price for a model" if billed is None else f"${billed:.6f} billed"
    agrees = billed == booked
    said = f"{totals['summary_calls']:,} calls for summaries, {bill}, ${booked:.6f} in foldahead's books"
    console.print(Text(said, style="good" if agrees else "bad"))
