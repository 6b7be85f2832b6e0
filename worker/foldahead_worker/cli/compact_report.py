"""What `foldahead compact` shows to people: before and after, what stands where, the summary."""

from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from foldahead.core.record import Record
from foldahead.oneshot import Compaction
from foldahead_worker.cli.faults import one_line
from foldahead_worker.cli.printing import out
from foldahead_worker.importers import ImportedSession

SUMMARY_LINES = 30
LINE_CHARS = 240
"""How much of the summary is shown; `--json` has all."""
FEW = 8
"""Entries of a long list that are shown."""

EDITS = ("elided", "thinking_removed", "repaired")
"""Records that change a message which stays."""

WORDS = {
    "below_threshold": "it is below its threshold (--force waives that)",
    "nothing_to_compact": "nothing stands between the stable prefix and the preserved tail",
    "no_valid_boundary": "no place was found where no call is parted from its result",
    "open_call": "the last message is a call that waits for its result",
    "open_thinking_turn": "a tool turn with thinking is open",
    "not_smaller": "the summary is not small enough",
    "empty": "the summary is empty",
    "not_prose": "the summary is no prose",
    "cut_off": "the summary was cut off",
    "refused": "the summariser refused",
    "about_the_request": "the summary is about the request itself",
    "off": "the policy's mode is off",
    "shadow": "the policy's mode is shadow",
}
"""Reasons of `unchanged` in words."""


def print_report(title: str, session: ImportedSession, result: Compaction) -> None:
    """The whole report on standard output."""
    console = out()
    console.print()
    console.print(Text(title, style="title"), overflow="ellipsis", no_wrap=True)
    console.print(_headline(result))
    console.print()
    console.print(Padding(_sizes(len(session.messages), result), (0, 0, 0, 2)))
    if result.outcome != "unchanged" or result.repairs:
        console.print()
        console.print(Padding(_layout(len(session.messages), result), (0, 0, 0, 2)))
    if result.summary:
        _print_summary(console, result.summary)
    console.print()


def _headline(result: Compaction) -> Text:
    match result.outcome:
        case "swapped" if result.fallback:
            said = f"swapped: the summariser did not deliver, rules summarise {result.dropped} messages"
            return Text(said, style="warn")
        case "swapped":
            return Text(f"swapped: one summary stands for {result.dropped} messages", style="good")
        case "elided":
            return Text(f"elided: {len(result.elided)} old tool results became stubs", style="good")
        case "truncated":
            return Text(f"truncated: the oldest {result.dropped} messages are left out", style="warn")
        case _:
            why = WORDS.get(result.reason, result.reason)
            return Text(f"unchanged: {why}", style="warn" if result.exhausted else "")


def _sizes(messages: int, result: Compaction) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("")
    table.add_column("messages", justify="right")
    table.add_column("tokens", justify="right")
    table.add_column("")
    table.add_row("before", f"{messages:,}", f"{result.tokens_before:,}", "")
    saved = 1 - result.tokens_after / result.tokens_before if result.tokens_before else 0.0
    change = Text(f"-{saved:.0%}" if saved > 0 else "", style="good")
    table.add_row("after", f"{len(result.messages):,}", f"{result.tokens_after:,}", change)
    if result.exhausted:
        table.add_row(Text("even this does not fit", style="bad"), "", "", "")
    return table


def _layout(messages: int, result: Compaction) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("message", justify="right")
    table.add_column("in the view")
    for place, what, style in _rows(messages, result):
        table.add_row(place, Text(one_line(what), style=style))
    return table


def _rows(messages: int, result: Compaction) -> Iterator[tuple[str, str, str]]:
    spans = [record for record in result.records if record.stands_for_span]
    end = 0
    for record in spans:
        if record.start > end:
            yield _place(end, record.start), "as it was", ""
        yield _place(record.start, record.end), _span_words(record, result), "ours"
        end = record.end
    yield from _edits(result)
    if end < messages:
        edited = any(record.kind in EDITS and record.end > end for record in result.records)
        yield _place(end, messages), "as it was, but for the above" if edited else "as it was, byte for byte", ""
    for repair in result.repairs[:FEW]:
        yield "", f"found broken: {repair}", "warn"
    if len(result.repairs) > FEW:
        yield "", f"found broken: {len(result.repairs) - FEW} more", "warn"


def _span_words(record: Record, result: Compaction) -> str:
    if record.kind == "truncated":
        return "left out; a marker names them"
    by = "rules" if record.reason == "extract" or record.cache_key is None else "a summary"
    return f"one message: {'a summary made by rules' if by == 'rules' else by} ({len(result.summary):,} characters)"


def _edits(result: Compaction) -> Iterator[tuple[str, str, str]]:
    words = {
        "pinned": "pinned: kept beside the summary",
        "thinking_removed": "its thinking is left out, whole",
        "repaired": "mended",
    }
    for kind, said in words.items():
        places = sorted({record.start for record in result.records if record.kind == kind})
        if places:
            yield _listed(places), said, "warn" if kind == "repaired" else ""
    if result.elided:
        yield _listed(list(result.elided)), "the tool result became a one-line stub", "ours"


def _listed(indices: list[int]) -> str:
    shown = ", ".join(map(str, indices[:FEW]))
    return f"{shown}, and {len(indices) - FEW} more" if len(indices) > FEW else shown


def _place(start: int, end: int) -> str:
    return str(start) if end - start == 1 else f"{start} to {end - 1}"


def _print_summary(console: Console, summary: str) -> None:
    lines = summary.splitlines()
    console.print()
    console.rule(Text("what was put in", style="faint"), align="left", style="faint")
    for line in lines[:SUMMARY_LINES]:
        console.print(Text(line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]} ..."))
    if len(lines) > SUMMARY_LINES:
        console.print(Text(f"... {len(lines) - SUMMARY_LINES} more lines; --json has them all", style="faint"))
