"""What `foldahead demo` shows: a live table on a terminal, a line for each turn elsewhere."""

import contextlib
import time
from collections.abc import Generator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from foldahead.core.dialects import get_dialect
from foldahead.core.messages import Text as TextBlock
from foldahead.core.wrapper import is_summary, unwrap
from foldahead_worker.cli.figures import share, short
from foldahead_worker.cli.printing import out
from foldahead_worker.playing.live import Seen
from foldahead_worker.playing.plays import SessionPlayed
from foldahead_worker.playing.settling import State

BAR_CHARS = 28
MOST_ROWS = 14
SUMMARY_LINES = 14
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
STYLES = {"": "faint", "armed": "warn", "writing": "warn", "ready": "ours", "swapped": "good"}
NEWS = {
    "": "The agent works. Its token counts go to Redis after every turn.",
    "armed": "The session will need a summary soon; the watcher orders it when it is time.",
    "writing": "A worker writes a summary ({seconds:.1f} s so far); the agent waits for nothing.",
    "ready": "The summary is ready. It is swapped in once 30k tokens are pending.",
    "swapped": "Swapped: the summary stands where the old messages stood.",
}
FIRST_STEPS = (
    ("foldahead play FILE...", "sessions of your own (Claude Code: ~/.claude/projects)"),
    ("foldahead compact FILE", "one compaction, here and now"),
    ("foldahead up", "Redis, watcher and worker for your agents"),
)


class DemoScreen:
    """Everything that the demo prints, in order."""

    def __init__(self, summary_s: float, most_tokens: int) -> None:
        self._console = out()
        self._terminal = self._console.is_terminal
        self._summary_s = summary_s
        self._live: Live | None = None
        self._states: dict[int, str] = {}
        self._printed = 0
        self._since: tuple[str, float] = ("", time.monotonic())
        self._most = max(1, most_tokens)
        self._used: frozenset[bytes] = frozenset()
        self._over = False

    @contextlib.contextmanager
    def starting(self) -> Generator[None]:
        """Say what is started, for as long as nothing else is shown."""
        self._console.print()
        self._console.print(Text("foldahead demo", style="title"))
        self._status = self._console.status("starting Redis, a watcher and a worker ...", spinner="dots")
        if self._terminal:
            self._status.start()
        else:
            self._console.print("starting Redis, a watcher and a worker ...")
        try:
            yield
        finally:
            self._status.stop()

    def started(self, messages: int) -> None:
        """The stack runs."""
        self._status.stop()
        self._console.print(
            f"A recorded coding session of {messages} messages, through a real client, Redis,\n"
            f"watcher, Celery worker and database on this machine. Every summary is made to\n"
            f"take {self._summary_s:g} seconds.",
            style="faint",
        )
        self._console.print()

    @contextlib.contextmanager
    def playing(self) -> Generator[None]:
        """The live table, while the session is played; it stays on the screen."""
        if not self._terminal:
            self._console.print(f"{'turn':>4}  {'without':>8}  {'with':>8}  {'state':<8} {'added':>9}")
            yield
            return
        with Live(console=self._console, refresh_per_second=12, auto_refresh=False) as self._live:
            yield

    def show(self, seen: Sequence[Seen], state: State, ready: frozenset[bytes], *, over: bool) -> None:
        """How things stand, several times a turn; `ready` are the summaries that the servers have for the session."""
        self._over = over
        if not seen:
            return
        now = self._note(seen, state, ready)
        if self._live is not None:
            self._live.update(self._picture(seen, now), refresh=True)
            return
        for turn in seen[self._printed :]:
            self._print_line(turn)
        self._printed = len(seen)

    def ended(self, seen: Sequence[Seen], played: SessionPlayed) -> None:
        """What it came to, the summary itself, and what to try next."""
        self._console.print()
        self._print_sum(played)
        self._print_summary(seen)
        self._console.print()
        steps = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for command, what in FIRST_STEPS:
            steps.add_row(Text(command, style="ours"), Text(what, style="faint"))
        self._console.print(Text("Next", style="title"))
        self._console.print(steps)
        self._console.print()

    def _note(self, seen: Sequence[Seen], state: State, ready: frozenset[bytes]) -> str:
        last = seen[-1]
        if last.taken.outcome == "swapped":
            self._used = ready
        now = _state_of(last, state, has_ready=bool(ready - self._used))
        if now != self._since[0]:
            self._since = (now, time.monotonic())
        self._states[last.number] = now
        for turn in seen:
            self._states.setdefault(turn.number, _state_of(turn, "settled", has_ready=False))
        return now

    def _picture(self, seen: Sequence[Seen], now: str) -> RenderableType:
        rows = max(4, min(MOST_ROWS, self._console.height - 10))
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="faint")
        table.add_column("turn", justify="right", min_width=4)
        table.add_column("without", justify="right", min_width=7)
        table.add_column("with", justify="right", min_width=6)
        table.add_column("tokens in the request", min_width=BAR_CHARS)
        table.add_column("summary", min_width=8)
        table.add_column("turn waited", justify="right", min_width=11)
        for turn in seen[-rows:]:
            state = self._states[turn.number]
            table.add_row(
                str(turn.number),
                Text(short(turn.without), style="faint" if turn.sent < turn.without else ""),
                short(turn.sent),
                self._bar(turn),
                Text(state, style=STYLES[state]),
                f"{turn.added_ms:.2f} ms",
            )
        if self._over:
            return table
        frame = FRAMES[int(time.monotonic() * 10) % len(FRAMES)]
        words = NEWS[now].format(seconds=time.monotonic() - self._since[1])
        return Group(table, Text(), Text(f"{frame} {words}", style=STYLES[now]))

    def _bar(self, turn: Seen) -> Text:
        without = max(1, round(turn.without / self._most * BAR_CHARS))
        sent = max(1, round(turn.sent / self._most * BAR_CHARS))
        return Text("━" * sent, style="ours") + Text("─" * max(0, without - sent), style="faint")

    def _print_line(self, turn: Seen) -> None:
        state = self._states[turn.number]
        self._console.print(
            f"{turn.number:>4}  {turn.without:>8,}  {turn.sent:>8,}  {state:<8} {turn.added_ms:>6.2f} ms"
        )

    def _print_sum(self, played: SessionPlayed) -> None:
        saved = share(played.tokens_sent, played.tokens_sent_without)
        gone = played.tokens_sent_without - played.tokens_sent
        worst_ms = max([*played.quiet_ms, *(swap.added_ms for swap in played.swaps)], default=0.0)
        turns = ", ".join(str(swap.turn) for swap in played.swaps)
        late = sum(not swap.ready_before_needed for swap in played.swaps)
        ready = "each ready before it was needed" if not late else f"{late} later than it was needed"
        valid = "every request is one the provider accepts"
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(style="number", justify="right")
        table.add_column()
        table.add_row(
            Text(saved, style="good"), f"fewer tokens sent: {short(gone)} of {short(played.tokens_sent_without)}"
        )
        table.add_row(str(len(played.swaps)), f"swaps, at turns {turns}, {ready}")
        table.add_row(
            f"{worst_ms:.1f} ms", f"at most added to any of {played.turns} turns; a summary took {self._summary_s:g} s"
        )
        faults = len(played.validity_faults)
        table.add_row(str(faults), f"faults: {valid}" if not faults else "faults in what was sent")
        self._console.print(Text("What it came to", style="title"))
        self._console.print(table)

    def _print_summary(self, seen: Sequence[Seen]) -> None:
        swaps = [turn for turn in seen if turn.taken.outcome == "swapped" and turn.taken.sent]
        if not swaps:
            return
        lines = _summary_in(swaps[-1]).splitlines()
        self._console.print()
        said = f"The summary that turn {swaps[-1].number} got, made by rules (with a key, a model writes it)"
        self._console.print(Text(said, style="title"))
        for line in lines[:SUMMARY_LINES]:
            style = "title" if line.startswith("#") else "faint"
            self._console.print(Text(f"  {line}", style=style), overflow="ellipsis", no_wrap=True)
        if len(lines) > SUMMARY_LINES:
            self._console.print(Text(f"  ... {len(lines) - SUMMARY_LINES} more lines", style="faint"))


def _state_of(turn: Seen, state: State, *, has_ready: bool) -> str:
    if turn.taken.outcome == "swapped":
        return "swapped"
    if turn.taken.has_ready or has_ready:
        return "ready"
    return {"working": "writing", "armed": "armed", "settled": ""}[state]


def _summary_in(turn: Seen) -> str:
    """The summary in the request of a turn."""
    dialect = get_dialect("anthropic")
    messages: list[Any] = turn.taken.sent["messages"] if turn.taken.sent else []
    for at, message in enumerate(messages):
        for block in dialect.read(message, at).blocks:
            if isinstance(block, TextBlock) and is_summary(block.text):
                return unwrap(block.text)
    return ""
