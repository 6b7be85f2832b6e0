"""What one watcher does a second, and how long a session that crosses its threshold waits for us.

    python -m benchmarks.watcher

Looks: armed sessions that are decided and told to wait. Jobs: armed sessions for which a row is written and a wake-up
sent. Both in one thread, on SQLite and on PostgreSQL. Then the same through real processes: from the publish that asks
for a summary until the summary is at the session's disposal in Redis, less the time that the summariser took.
"""

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import redis

from benchmarks.databases import KINDS, database
from benchmarks.histories import Author, History
from benchmarks.report import Report, Row, Target, Timings, finish, parser
from benchmarks.sessions import Lone
from foldahead import Foldahead, Policy, Session, keys, wire
from foldahead.calls import Publish, publish_call
from foldahead.core.decide import INSTANT_START_RATIO
from foldahead.core.dialects import get_dialect
from foldahead.core.extract import extract
from foldahead_worker.app import make_app, wake_with
from foldahead_worker.embedded.redis_server import EmbeddedRedis
from foldahead_worker.library import load
from foldahead_worker.means import Chooser
from foldahead_worker.server import connect
from foldahead_worker.settings import Settings
from foldahead_worker.stack import Stack
from foldahead_worker.store import open_store
from foldahead_worker.switchboard import Switchboard
from foldahead_worker.watch import Watcher

LOOKS_A_SECOND, JOBS_A_SECOND = 5_000, 500
DELAY_P50_MS, DELAY_P99_MS = 25.0, 100.0
POLL_S = 0.001


class EveryKey:
    """A key for everyone: summaries are to be written by a model."""

    def has(self, workspace: str, provider: str) -> bool:  # noqa: ARG002
        return True


def standing_of(number: int, pending_tokens: int) -> wire.Standing:
    """A session with a history of its own, 30,000 tokens its threshold."""
    head = hashlib.sha256(str(number).encode()).digest()
    offer = wire.Offer(
        start=0,
        end=60,
        head_start=bytes(32),
        head_end=head,
        span_estimate_tokens=pending_tokens,
        span_tokens=pending_tokens,
    )
    return wire.Standing(
        dialect="anthropic",
        policy=Policy(),
        messages=80,
        head=head,
        turns=40,
        turn_id="40",
        pending_tokens=pending_tokens,
        prefix_tokens=900,
        tail_tokens=6_000,
        growth_tokens=100.0,
        interval_s=10.0,
        model="claude-haiku-5-5",
        offer=offer,
    )


def arm(client: "redis.Redis", count: int, pending_tokens: int) -> None:
    """So many sessions that want a look, now."""
    pipeline = client.pipeline(transaction=False)
    for number in range(count):
        standing = standing_of(number, pending_tokens)
        call = publish_call(
            Publish(
                member=keys.member(f"w{number % 20}", f"s{number}"),
                incarnation="bench",
                n=1,
                standing=wire.encode(standing),
                messages=standing.messages,
                head=standing.head,
                due_ms=0,
                upload=False,
            )
        )
        pipeline.execute_command(*call.command)
    pipeline.execute()


class Rate(NamedTuple):
    """Of one watcher: sessions a second, its own CPU for each, wake-ups sent."""

    a_second: float
    cpu_ms: float
    sent: int


def rate(server: EmbeddedRedis, database_url: str, count: int, pending_tokens: int) -> Rate:
    """How fast armed sessions go through one watcher's looks."""
    store, client = open_store(database_url), connect(server.url)
    client.flushall()
    load(client)
    arm(client, count, pending_tokens)
    settings = Settings(redis_url=server.url, database_url=database_url, broker_url=server.url)
    wake = wake_with(make_app(settings))
    sent: list[int] = []

    def counted(labels: Mapping[int, str]) -> None:
        wake(labels)
        sent.extend(labels)

    watcher = Watcher(store, Switchboard(client), Chooser(EveryKey(), rules_only=False), counted)
    looked = 0
    begun_s, cpu_s = time.perf_counter(), time.process_time()
    while now := watcher.look():
        looked += now
    elapsed_s, cpu_s = time.perf_counter() - begun_s, time.process_time() - cpu_s
    store.close()
    client.close()
    if looked < count:
        raise RuntimeError(f"{looked} of {count} sessions were looked at")
    return Rate(looked / elapsed_s, cpu_s / looked * 1000, len(sent))


def rates(kinds: Sequence[str], looks: int, jobs: int) -> list[Row]:
    """Looks and jobs a second, by database."""
    rows: list[Row] = []
    with EmbeddedRedis() as server:
        for kind in kinds:
            with database(kind) as url:
                look = rate(server, url, looks, pending_tokens=19_000)
                job = rate(server, url, jobs, pending_tokens=29_900)
            if look.sent or job.sent != jobs:
                raise RuntimeError(f"{look.sent} wake-ups for looks, {job.sent} for {jobs} jobs")
            rows.append(
                {
                    "database": kind,
                    "looks_a_second": look.a_second,
                    "look_cpu_ms": look.cpu_ms,
                    "jobs_a_second": job.a_second,
                    "job_cpu_ms": job.cpu_ms,
                }
            )
    return rows


class Crossing:
    """A session just below the point where a summary by rules is asked for, its bodies uploaded already."""

    def __init__(self, fold: Foldahead, number: int, policy: Policy) -> None:
        self.session: Session = fold.session(f"crossing-{number}", workspace="bench", policy=policy)
        author = Author(number, result_chars=2_400)
        self.history: History = [author.opening()]
        lone = Lone(policy)
        while True:
            self._last = author.turn()
            lone.session.publish([*self.history, *self._last])
            self._standing = lone.told().standing
            if self._standing.pending_tokens >= INSTANT_START_RATIO * policy.threshold:
                break
            self.history.extend(self._last)

    def upload(self) -> None:
        """The turn before: bodies are handed over, nothing is asked for."""
        self.session.publish(self.history)

    def cross(self) -> None:
        """The turn that asks."""
        self.history.extend(self._last)
        self.session.publish(self.history)

    def own_ms(self) -> float:
        """What the summariser needs for this span, here and alone."""
        offer = self._standing.offer
        if offer is None:
            return 0.0
        dialect = get_dialect("anthropic")
        span = [dialect.read(self.history[at], at) for at in range(offer.start, offer.end)]
        with Timings() as timed:
            extract(span, 4_000)
        return timed.all_ms[0]


def crossings(kind: str, count: int, summary_s: float, policy: Policy) -> Row:
    """Real processes: our own delay between the publish and the summary, one session after the other."""
    with (
        database(kind) as url,
        tempfile.TemporaryDirectory(prefix="foldahead-bench-") as logs,
        EmbeddedRedis() as server,
    ):
        settings = Settings(
            redis_url=server.url,
            broker_url=server.url,
            database_url=url,
            summarizer="extract",
            summary_delay_s=summary_s,
        )
        with Stack(settings, Path(logs)), connect(server.url) as client:
            fold = Foldahead(server.url)
            delays = [_delay_ms(fold, client, number, policy, summary_s) for number in range(count)]
            fold.close()
    found = Timings()
    found.all_ms = delays[1:] or delays  # the first meets processes that have not worked yet
    return {
        "database": kind,
        "own_delay_p50_ms": found.median_ms,
        "own_delay_p99_ms": found.quantile_ms(0.99),
        "own_delay_most_ms": max(found.all_ms),
        "first_ms": delays[0],
        "summary_s": summary_s,
    }


def _delay_ms(fold: Foldahead, client: "redis.Redis", number: int, policy: Policy, summary_s: float) -> float:
    crossing = Crossing(fold, number, policy)
    crossing.upload()
    fold.flush(10.0)
    ready = keys.ready(crossing.session.member)
    if client.exists(ready):
        raise RuntimeError("a summary was there before it was asked for")
    begun_s = time.perf_counter()
    crossing.cross()
    _wait(lambda: bool(client.exists(ready)), 60.0)
    total_ms = (time.perf_counter() - begun_s) * 1000
    return total_ms - summary_s * 1000 - crossing.own_ms()


def _wait(condition: Callable[[], bool], timeout_s: float) -> None:
    until_s = time.perf_counter() + timeout_s
    while not condition():
        if time.perf_counter() > until_s:
            raise RuntimeError("no summary came in time")
        time.sleep(POLL_S)


def run(args: argparse.Namespace) -> Report:
    """Rates, then delays."""
    kinds = KINDS[:1] if args.tiny else tuple(args.databases.split(","))
    looks, jobs, count = (50, 20, 2) if args.tiny else (args.looks, args.jobs, args.crossings)
    policy = (
        msgspec.structs.replace(Policy(), threshold_tokens=6_000, preserve_recent_turns=1) if args.tiny else Policy()
    )
    summary_s = 0.05 if args.tiny else args.summary_seconds
    by_kind = {str(row["database"]): row for row in rates(kinds, looks, jobs)}
    rows = [by_kind[kind] | crossings(kind, count, summary_s, policy) for kind in kinds]
    return Report(
        "watcher",
        "One watcher: sessions looked at, jobs made, and our own delay from crossing to ready",
        rows,
        {"looks": looks, "jobs": jobs, "crossings": count, "summary_s": summary_s},
        [target for row in rows for target in _targets(row)],
        [
            "own delay: from the publish that asks to the summary in Redis, less the summariser's time: link, publish,"
            " watcher, Celery, lease, bodies, commit, delivery",
        ],
    )


def _targets(row: Row) -> list[Target]:
    kind = row["database"]

    def target(what: str, limit: float, name: str, unit: str, at_most: bool) -> Target:
        value = row[name]
        return Target(f"{what}, {kind}", limit, float(value) if isinstance(value, int | float) else None, unit, at_most)

    return [
        target("armed sessions looked at", LOOKS_A_SECOND, "looks_a_second", "/s", at_most=False),
        target("jobs made", JOBS_A_SECOND, "jobs_a_second", "/s", at_most=False),
        target("own delay, median", DELAY_P50_MS, "own_delay_p50_ms", "ms", at_most=True),
        target("own delay, p99", DELAY_P99_MS, "own_delay_p99_ms", "ms", at_most=True),
    ]


def main(argv: list[str] | None = None) -> None:
    options = parser("Decisions and jobs a second through one watcher; our own delay from crossing to ready.")
    options.add_argument("--databases", default=",".join(KINDS))
    options.add_argument("--looks", type=int, default=10_000)
    options.add_argument("--jobs", type=int, default=2_000)
    options.add_argument("--crossings", type=int, default=60)
    options.add_argument("--summary-seconds", type=float, default=0.5)
    args = options.parse_args(argv)
    finish(run(args), args.out)


if __name__ == "__main__":
    main()
