"""What `request` adds to a turn while the link's thread is busy, over real servers.

    python -m benchmarks.request_latency

Fifty sessions of one process grow past 30,000 tokens over an embedded Redis, with a watcher and a Celery worker beside
them. The caller's thread and the link's share one interpreter: what the link holds it for is what `request` waits.
"""

import argparse
import gc
import json
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from benchmarks.histories import Author, History
from benchmarks.report import Report, Row, Target, Timings, finish, parser
from benchmarks.sessions import Lone
from foldahead import Foldahead, Policy, Session
from foldahead_worker.settings import read_settings
from foldahead_worker.stack import private_stack

MODEL = "claude-haiku-5-5"
RESULT_CHARS = 2_400
"""About 400 tokens a message: a session of 30,000 tokens has 75 turns."""
FAT_CHARS, FAT_EVERY = 60_000, 20
NO_SWAP_P99_MS, SWAP_P99_MS = 0.1, 5.0


class Pair:
    """Durations of one kind of request, by the wall clock and in the caller's own CPU time."""

    def __init__(self) -> None:
        self.wall, self.cpu = Timings(), Timings()

    def append(self, wall_ms: float, cpu_ms: float) -> None:
        self.wall.all_ms.append(wall_ms)
        self.cpu.all_ms.append(cpu_ms)


Taken = dict[str, Pair]


class Nothing:
    """What a session's `request` is measured against: it takes a lock and does nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def request(self, **kwargs: Any) -> dict[str, Any]:
        """What was given."""
        with self._lock:
            return kwargs


class Agent:
    """One session and its history; times what `request` takes."""

    def __init__(self, session: Session, seed: int, *, fat: bool) -> None:
        self.session = session
        self._author = Author(seed, RESULT_CHARS)
        self._fat = Author(seed, FAT_CHARS) if fat else None
        self.history: History = []
        self._arriving = json.dumps(self._author.opening())

    def turn(self, taken: Taken) -> None:
        """One turn: what has just arrived, a request, its answer, a publish."""
        self.history.append(json.loads(self._arriving))
        before = len(self.session.records)
        time.perf_counter_ns()  # in a process that slept the clock itself takes microseconds at first
        cpu, begun = time.thread_time_ns(), time.perf_counter_ns()
        self.session.request(model=MODEL, max_tokens=4_096, messages=self.history)
        elapsed_ms, cpu_ms = (time.perf_counter_ns() - begun) / 1e6, (time.thread_time_ns() - cpu) / 1e6
        record = self.session.last_record if len(self.session.records) != before else None
        kind = "quiet" if record is None else "extract" if record.reason == "extract" else "swap"
        taken[kind].append(elapsed_ms, cpu_ms)
        fat = self._fat is not None and len(self.history) // 2 % FAT_EVERY == FAT_EVERY - 1
        answer, results = self._fat.turn() if fat and self._fat else self._author.turn()
        self.history.append(answer)
        self.session.publish(self.history)
        self._arriving = json.dumps(results)


def play(
    sessions: list[Session],
    turns: int,
    turns_a_second: float | None,
    hand: Callable[[int], None] | None = None,
    *,
    fat: bool = False,
) -> Row:
    """All sessions in turn for so many turns each, at a pace or flat out. `hand` is called before each turn."""
    agents = [Agent(session, seed, fat=fat) for seed, session in enumerate(sessions)]
    taken: Taken = {kind: Pair() for kind in ("quiet", "swap", "extract")}
    gc.collect()
    begun_s = time.perf_counter()
    done = 0
    for _ in range(turns):
        for at, agent in enumerate(agents):
            if hand:
                hand(at)
            agent.turn(taken)
            done += 1
            if turns_a_second:
                time.sleep(max(0.0, begun_s + done / turns_a_second - time.perf_counter()))
    return {"turns": done, "turns_a_second": done / (time.perf_counter() - begun_s)} | _figures(taken)


def _figures(taken: Taken) -> Row:
    quiet, swap, extracts = taken["quiet"], taken["swap"], taken["extract"]
    row: Row = {
        "p50_ms": quiet.wall.median_ms,
        "p99_ms": quiet.wall.quantile_ms(0.99),
        "most_ms": max(quiet.wall.all_ms),
        "cpu_p50_ms": quiet.cpu.median_ms,
        "cpu_p99_ms": quiet.cpu.quantile_ms(0.99),
        "swaps": len(swap.wall.all_ms),
    }
    if swap.wall.all_ms:
        row |= {"swap_p50_ms": swap.wall.median_ms, "swap_p99_ms": swap.wall.quantile_ms(0.99)}
        row |= {"swap_cpu_p99_ms": swap.cpu.quantile_ms(0.99)}
    if extracts.wall.all_ms:
        row |= {"extracts": len(extracts.wall.all_ms), "extract_p50_ms": extracts.wall.median_ms}
    return row


def floor(turns: int, turns_a_second: float) -> Row:
    """The same pace with a method that does nothing: what a turn costs in a process that slept, whatever it does."""
    nothing, taken, author, history = Nothing(), Pair(), Author(0, RESULT_CHARS), []
    begun_s = time.perf_counter()
    for done in range(1, turns + 1):
        answer, results = author.turn()
        arriving = json.dumps(results)
        time.sleep(max(0.0, begun_s + done / turns_a_second - time.perf_counter()))
        history += [answer, json.loads(arriving)]
        time.perf_counter_ns()
        cpu, begun = time.thread_time_ns(), time.perf_counter_ns()
        nothing.request(model=MODEL, max_tokens=4_096, messages=history)
        taken.append((time.perf_counter_ns() - begun) / 1e6, (time.thread_time_ns() - cpu) / 1e6)
    elapsed_s = time.perf_counter() - begun_s
    row = _figures({"quiet": taken, "swap": Pair(), "extract": Pair()})
    return {"turns": turns, "turns_a_second": turns / elapsed_s} | row


def silent(count: int, turns: int, policy: Policy, turns_a_second: float | None = None, *, fat: bool = False) -> Row:
    """The same work without a link: what the core alone takes. Summaries are there as soon as they are wanted."""
    alone = [Lone(policy, f"s{at}") for at in range(count)]
    published: set[int] = set()

    def hand(at: int) -> None:
        if at in published and (delta := alone[at].told()).due_in_s is not None and delta.standing.offer is not None:
            alone[at].hand_summary()
        published.add(at)

    return play([one.session for one in alone], turns, turns_a_second, hand, fat=fat)


def linked(url: str, count: int, turns: int, policy: Policy, turns_a_second: float | None) -> Row:
    """With a link over a real Redis."""
    fold = Foldahead(url)
    name = f"paced{turns_a_second}"
    sessions = [fold.session(f"{name}-{at}", workspace="bench", policy=policy) for at in range(count)]
    row = play(sessions, turns, turns_a_second)
    fold.flush(10.0)
    counters = fold.counters()
    fold.close()
    if counters.faults or counters.failed_exchanges:
        row["link_trouble"] = counters.faults + counters.failed_exchanges
    return row


@contextmanager
def switch_interval(seconds: float | None) -> Generator[None]:
    """How long a thread may hold the interpreter while others wait."""
    before = sys.getswitchinterval()
    if seconds:
        sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run(args: argparse.Namespace) -> Report:
    """Without a link, paced, and flat out."""
    count, turns = (3, 12) if args.tiny else (args.sessions, args.turns)
    policy = _tiny_policy() if args.tiny else Policy()
    rows: list[Row] = [
        {"link": "none (core alone)"} | silent(count, turns, policy),
        {"link": "none, fat results"} | silent(count, turns, policy, fat=True),
        {"link": f"none, {args.pace:g} turns a second"} | silent(count, turns, policy, args.pace),
    ]
    with switch_interval(args.switch_interval), private_stack(read_settings({})) as stack:
        url = stack.settings.redis_url
        for pace in (args.pace, None):
            name = f"busy, {pace:g} turns a second" if pace else "busy, flat out"
            rows.append({"link": name} | linked(url, count, turns, policy, pace))
            stack.check()
    rows.append({"link": f"a lock alone, {args.pace:g} a second"} | floor(count * turns // 3, args.pace))
    return Report(
        "request_latency",
        f"What request adds to a turn, {count} sessions in one process",
        rows,
        {"sessions": count, "turns": turns, "pace": args.pace, "switch_interval_s": args.switch_interval},
        _targets(rows[3]),
        [
            f"fat results: every {FAT_EVERY}th result has about {FAT_CHARS:,} characters",
            "p50 to most: requests without a swap; each meets one new message of about 400 tokens, just decoded",
            "a lock alone: a method that takes a lock and returns, called as `request` is: no request can be cheaper",
            "cpu: what the caller's thread worked; the wall clock adds what other threads and processes had of it",
            "the watcher, the worker and Redis run on the same machine",
        ],
    )


def _tiny_policy() -> Policy:
    return Policy(threshold_tokens=3_000, hard_cap_tokens=20_000, min_span_tokens=200, preserve_recent_turns=2)


def _targets(row: Row) -> list[Target]:
    def of(name: str) -> float | None:
        value = row.get(name)
        return float(value) if isinstance(value, int | float) else None

    return [
        Target("request without a swap, p99", NO_SWAP_P99_MS, of("p99_ms"), "ms"),
        Target("request without a swap, p99 of CPU time", NO_SWAP_P99_MS, of("cpu_p99_ms"), "ms"),
        Target("request with a swap at 30,000 tokens, p99", SWAP_P99_MS, of("swap_p99_ms"), "ms"),
    ]


def main(argv: list[str] | None = None) -> None:
    options = parser("What request adds to a turn while the link is busy.")
    options.add_argument("--sessions", type=int, default=50)
    options.add_argument("--turns", type=int, default=90, help="turns of each session")
    options.add_argument("--pace", type=float, default=50.0, help="turns a second, all sessions together")
    options.add_argument("--switch-interval", type=float, default=None, help="sys.setswitchinterval, seconds")
    args = options.parse_args(argv)
    if args.tiny:
        args.pace = 200.0
    finish(run(args), args.out)


if __name__ == "__main__":
    main()
