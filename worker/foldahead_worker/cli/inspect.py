"""`foldahead inspect SESSION`: what was compacted of a session, before and after, the summaries, and why."""

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from foldahead_worker.cli.faults import BadInput, one_line
from foldahead_worker.cli.figures import ago, share
from foldahead_worker.cli.options import JsonOption
from foldahead_worker.cli.printing import out, print_json

PICO = 1_000_000_000_000
SUMMARY_LINES = 12
LINE_CHARS = 200
MOST_EVENTS = 5_000
FEW_EVENTS = 15
_OF_SPANS = ("swapped", "truncated")
"""Kinds of records that put something in the place of a span, or (with no message) take it back."""
_STATES = {
    "waiting": ("waits for it", "warn"),
    "ready": ("ready, not shown yet", "good"),
    "shown": ("in the view", "good"),
    "given_up": ("not in the view any more, or never", "faint"),
}


def inspect(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's name.", show_default=False)],
    workspace: Annotated[
        str | None,
        typer.Option(
            "--workspace", metavar="W", help="Its workspace, where several have one of that name.", show_default=False
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Summaries whole, and all events.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what was compacted of a session: spans, tokens before and after, the summaries, what each cost, and why.

    From the database alone: also for sessions that have ended. It shows summaries, which are content.

    Examples:

        foldahead inspect ticket-4711
        foldahead inspect ticket-4711 --workspace acme --full
        foldahead inspect ticket-4711 --json | jq '.compactions[].tokens_out'
    """
    found = _found(session, workspace)
    if as_json:
        print_json(found)
    else:
        _print(found, full=full)


def _found(session: str, workspace: str | None) -> dict[str, Any]:
    # Imported here: the database takes most of a second, which no other command is to wait for.
    from foldahead_worker.settings import read_settings
    from foldahead_worker.store import open_store
    from foldahead_worker.store.compactions import compactions_of, latest_sessions, sessions_named
    from foldahead_worker.store.events import events_after
    from foldahead_worker.store.records import records_of
    from foldahead_worker.store.spend import spent_by_session

    store = open_store(read_settings().database_url)
    try:
        named = sessions_named(store, session) if workspace is None else (workspace,)
        if not named:
            known = _known(latest_sessions(store))
            raise BadInput(f"no session {session!r} {known} (--workspace looks for one that never asked)")
        at = _only(session, named)
        compactions = compactions_of(store, at, session)
        events = events_after(store, workspace=at, session=session, limit=MOST_EVENTS)
        records = records_of(store, at, session)
        spent = spent_by_session(store, at, session)
        if not (compactions or events or records):
            raise BadInput(f"no session {session!r} of workspace {at!r} {_known(latest_sessions(store))}")
    finally:
        store.close()
    kept = [msgspec.json.decode(record) for record in records]
    shown = _shown_last(kept)
    return {
        "workspace": at,
        "session": session,
        "spend_usd": spent / PICO,
        "compactions": [
            msgspec.to_builtins(one) | {"state": _state(one.state, one.cache_key, shown)} for one in compactions
        ],
        "records": kept,
        "events": [msgspec.json.decode(event.json) for event in events],
    }


def _shown_last(records: list[dict[str, Any]]) -> str:
    """Cache key of the summary that was swapped in last; empty where it was taken back, or was the agent's own."""
    last = next((record for record in reversed(records) if record["kind"] in _OF_SPANS), None)
    return (last.get("cache_key") or "") if last and last.get("message") else ""


def _state(state: str, cache_key: str, shown: str) -> str:
    """What became of a summary: a session that has asked for nothing since its swap is known by its records alone."""
    if cache_key == shown:
        return "shown"
    return "given_up" if shown and state == "shown" else state


def _known(latest: tuple[str, ...]) -> str:
    return f"is known to the database; the latest are {', '.join(latest)}" if latest else "is known, nor is any other"


def _only(session: str, workspaces: tuple[str, ...]) -> str:
    if len(workspaces) == 1:
        return workspaces[0]
    raise BadInput(f"several workspaces have a session {session!r}: give --workspace, one of {', '.join(workspaces)}")


def _print(found: dict[str, Any], *, full: bool) -> None:
    console = out()
    swaps = [record for record in found["records"] if record["kind"] in _OF_SPANS and record.get("message")]
    console.print()
    console.print(Text(one_line(f"{found['workspace']}/{found['session']}"), style="title"))
    console.print(
        f"{len(found['compactions'])} summaries asked for, {len(swaps)} swapped in, {len(found['records'])} records, "
        f"${found['spend_usd']:.6f} spent"
    )
    for compaction in found["compactions"]:
        _print_compaction(console, compaction, full=full)
    _print_events(console, found["events"], full=full)
    console.print()


def _print_compaction(console: Console, one: dict[str, Any], *, full: bool) -> None:
    said, style = _STATES[one["state"]]
    console.print()
    console.rule(
        Text(f"messages {one['start']} to {one['end'] - 1}  {one['cache_key'][:12]}", style="faint"),
        align="left",
        style="faint",
    )
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="faint")
    table.add_column()
    table.add_row("state", Text(said, style=style))
    table.add_row("asked for", f"{_when(one['asked_at_ms'])}, turn {one_line(one['turn_id'])}, {_why(one['urgency'])}")
    table.add_row("by", one_line(one["model"] if one["model"] == one["kind"] else f"{one['kind']} {one['model']}"))
    table.add_row("job", _job(one))
    if one["text"]:
        smaller = share(one["tokens_out"], one["tokens_in"])
        table.add_row("tokens", f"{one['tokens_in']:,} before, {one['tokens_out']:,} after ({smaller} less)")
        took = max(0, one["made_at_ms"] - one["asked_at_ms"])
        table.add_row("made", f"{ago(took)} after it was asked for, ${one['cost_picodollars'] / PICO:.6f}")
    console.print(Padding(table, (0, 0, 0, 2)))
    if one["text"]:
        _print_text(console, one["text"], full=full)


def _why(urgency: str) -> str:
    return "at the hard cap" if urgency == "forced" else "ahead of its threshold"


def _job(one: dict[str, Any]) -> Text:
    if not one["job_id"]:
        return Text("tidied away", style="faint")
    why = one["error_class"] or one["reason"]
    said = f"{one['job_id']}, {one['job_state']}, {one['attempts']} attempts{f': {why}' if why else ''}"
    return Text(one_line(said), style="bad" if one["job_state"] == "failed" else "")


def _print_text(console: Console, text: str, *, full: bool) -> None:
    lines = text.splitlines()
    shown = lines if full else lines[:SUMMARY_LINES]
    for line in shown:
        fits = full or len(line) <= LINE_CHARS
        console.print(Padding(Text(line if fits else f"{line[:LINE_CHARS]} ..."), (0, 0, 0, 4)))
    if len(shown) < len(lines):
        console.print(
            Padding(Text(f"... {len(lines) - len(shown)} more lines; --full shows all", style="faint"), (0, 0, 0, 4))
        )


def _print_events(console: Console, events: list[dict[str, Any]], *, full: bool) -> None:
    if not events:
        return
    shown = events if full else events[-FEW_EVENTS:]
    console.print()
    console.rule(Text(f"events, the last {len(shown)} of {len(events)}", style="faint"), align="left", style="faint")
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for event in shown:
        payload = {name: value for name, value in event["payload"].items() if name not in ("session_id", "cache_key")}
        told = " ".join(f"{name}={value}" for name, value in payload.items())
        style = "bad" if event["type"].endswith(("failed", "rejected")) else ""
        table.add_row(
            Text(_when(event["created_at_ms"]), style="faint"),
            Text(event["type"].rpartition(".")[2], style=style),
            Text(one_line(told), style="faint", overflow="ellipsis", no_wrap=True),
        )
    console.print(Padding(table, (0, 0, 0, 2)))


def _when(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
