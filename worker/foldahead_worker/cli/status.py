"""`foldahead status`: what is there, what waits, what it cost."""

import time
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from foldahead_worker.cli.figures import ago
from foldahead_worker.cli.options import JsonOption
from foldahead_worker.cli.printing import out, print_json
from foldahead_worker.settings import make_state_directory, read_settings

PICO = 1_000_000_000_000


def status(as_json: JsonOption = False) -> None:
    """Say how the service is: what waits in Redis, jobs, summaries, spend, workers that answer.

    Exit status 1, and one line, when Redis or the database cannot be reached.

    Examples:

        foldahead status
        foldahead status --json | jq .jobs
    """
    state = _state()
    if as_json:
        print_json(state)
    else:
        _print(state)


def _state() -> dict[str, Any]:
    # Imported here: the database and Celery take most of a second, which no other command is to wait for.
    from foldahead_worker.cli.reaching import has_library, reach_redis, shown_url, workers_alive
    from foldahead_worker.store import open_store
    from foldahead_worker.store.spend import day_of, spend_rows
    from foldahead_worker.store.status import status as numbers_of
    from foldahead_worker.switchboard import Switchboard

    settings = read_settings()
    make_state_directory()
    client = reach_redis(settings)
    loaded = has_library(client)
    counts: dict[str, Any] = msgspec.to_builtins(Switchboard(client).figures.counts())
    store = open_store(settings.database_url)
    now_ms = time.time_ns() // 1_000_000
    numbers = numbers_of(store, now_ms)
    spent, today = spend_rows(store), spend_rows(store, since_day=day_of(now_ms))
    store.close()
    client.close()
    return {
        "redis": {"url": shown_url(settings.redis_url), "functions_loaded": loaded, **counts},
        "database": {"url": shown_url(settings.database_url)},
        "jobs": {state: getattr(numbers, state) for state in ("queued", "leased", "done", "failed")},
        "oldest_due_age_ms": numbers.oldest_due_age_ms,
        "waiting": numbers.waiting,
        "summaries": numbers.summaries,
        "sessions": numbers.sessions,
        "records": numbers.records,
        "events": numbers.events,
        "spend_usd": {
            "all": sum(row.picodollars for row in spent) / PICO,
            "today": sum(row.picodollars for row in today) / PICO,
        },
        "workers": workers_alive(settings),
    }


def _print(state: dict[str, Any]) -> None:
    redis, jobs = state["redis"], state["jobs"]
    workers: list[str] = state["workers"]
    late_ms = state["oldest_due_age_ms"]
    rows: list[tuple[str, str, str]] = [
        ("redis", redis["url"], ""),
        ("database", state["database"]["url"], ""),
        (
            "workers",
            ", ".join(workers) if workers else "none answers: start one with foldahead work",
            "" if workers else "bad",
        ),
        (
            "sessions",
            f"{redis['armed']:,} want a summary; {state['waiting']:,} wait for one; {state['sessions']:,} known",
            "",
        ),
        ("jobs", "; ".join(f"{jobs[name]:,} {name}" for name in ("queued", "leased", "done", "failed")), ""),
        ("latest job", f"due since {ago(late_ms)}" if late_ms else "none is late", "warn" if late_ms > 60_000 else ""),
        ("summaries", f"{state['summaries']:,} kept", ""),
        ("spend", f"${state['spend_usd']['today']:.4f} today, ${state['spend_usd']['all']:.4f} in all", ""),
        ("inbox", f"{redis['inbox_lag']:,} reports not yet kept", "warn" if redis["inbox_lag"] > 1_000 else ""),
    ]
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name, what, style in rows:
        table.add_row(Text(name, style="faint"), Text(what, style=style))
    out().print(table)
