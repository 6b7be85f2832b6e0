"""Fleets: many sessions of different content at a steady pace, through real processes.

    python -m benchmarks.fleet --sessions 100 1000 10000

One watcher, two workers, one Redis, and agent processes that play every session until it was compacted. With a head
start (the default) sessions are met anywhere on their way, as in a fleet that has run for long; without one all start
at once, and all cross their thresholds within the same minute. Crossing to ready: from the publish that asks for a
summary until the summary is at the session's disposal in Redis, the summariser's own time included. Summaries are made
by rules, on this machine's own cores.
"""

import argparse
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.histories import Author, History
from benchmarks.report import Report, Row, Target, finish, parser
from foldahead import Foldahead, Policy, Session, keys
from foldahead.core.decide import Means, Start, decide
from foldahead_worker.embedded.redis_server import EmbeddedRedis
from foldahead_worker.server import connect
from foldahead_worker.settings import Settings
from foldahead_worker.stack import Child
from foldahead_worker.summarizers.extract import EXTRACT_VERSION

WORKSPACE = "fleet"
MODEL = "claude-sonnet-5-5"
BY_RULES = Means(kind="extract", model="", prompt_version=EXTRACT_VERSION, summary_s=0.5)
WATCHERS, WORKERS = 1, 2
POLL_S = 0.02
"""How often it is asked whether a summary is ready: what the crossing-to-ready times are exact to."""
TURNS_AFTER_SWAP = 2
GIVE_UP_AFTER_TURNS = 90
MOST_TURNS_A_SECOND = 333
"""What the agents of all sessions ask of this machine at most: a larger fleet takes its turns more slowly."""
REQUEST_P99_MS = 5.0
TROUBLE = ("failed_exchanges", "refused", "unusable", "faults", "dropped_sessions", "dropped_events")
"""Counters of the link that say that something was lost, or had to be told again."""


@dataclass(frozen=True)
class Plan:
    """What one agent process plays."""

    url: str
    first: int
    count: int
    turn_s: float
    threshold_tokens: int
    head_start: int


@dataclass(frozen=True)
class Found:
    """What one agent process saw. Times in milliseconds; a session that never swapped is in `unswapped`."""

    ready_ms: list[float]
    request_ms: list[float]
    late_ms: list[float]
    """How far behind its pace each turn began: what this process had no time for."""
    waited_turns: list[int]
    """Turns from the crossing of the threshold to the swap."""
    unswapped: list[int]
    degraded: list[int]
    """Sessions that met the hard cap before their summary came, and were cut short by rules in the agent."""
    unready: list[int]
    rss_mib: float
    counters: dict[str, int]


class Player:
    """One session: grows by a turn at its pace, until it was compacted for some turns."""

    def __init__(self, fold: Foldahead, number: int, policy: Policy, head_start: int) -> None:
        """`head_start`: turns, at most, that a session has behind it when the fleet is first seen."""
        self.number = number
        self.session: Session = fold.session(f"s{number}", workspace=WORKSPACE, policy=policy)
        self._threshold = policy.threshold
        # Some twenty turns to the threshold, each at a growth of its own: they do not all cross in the same turn.
        least_chars = policy.threshold // 8
        self._author = Author(number, result_chars=least_chars + number * 7_919 % least_chars)
        self.history: History = [self._author.opening()]
        for _ in range(number * 7_919 % (head_start + 1)):
            self.history.extend(self._author.turn())
        self.request_ms: list[float] = []
        self.turns = 0
        self.crossed_turn: int | None = None
        self.swapped_turn: int | None = None
        self.degraded = False
        self.asked_s: float | None = None
        self.ready_s: float | None = None

    @property
    def is_done(self) -> bool:
        swapped = self.swapped_turn is not None and self.turns >= self.swapped_turn + TURNS_AFTER_SWAP
        return swapped or self.turns >= GIVE_UP_AFTER_TURNS

    def take_turn(self) -> None:
        """What an agent does, without the provider's answer."""
        begun_s = time.perf_counter()
        request = self.session.request(model=MODEL, max_tokens=4_096, messages=self.history)
        self.request_ms.append((time.perf_counter() - begun_s) * 1000)
        self.turns += 1
        plan = self.session.plan
        if self.crossed_turn is None and plan.tokens_before >= self._threshold:
            self.crossed_turn = self.turns
        if self.swapped_turn is None and request["messages"] is not self.history:
            self.swapped_turn = self.turns
            self.degraded = plan.summary is None
        self.history.extend(self._author.turn())
        self.session.publish(self.history)
        if self.asked_s is None and isinstance(decide(self.session.standing, WORKSPACE, BY_RULES), Start):
            self.asked_s = time.monotonic()


def play(plan: Plan) -> Found:
    """An agent process: all its sessions in one thread, each turn when it is due."""
    fold = Foldahead(plan.url)
    policy = Policy(threshold_tokens=plan.threshold_tokens, hard_cap_tokens=plan.threshold_tokens * 3)
    players = [Player(fold, plan.first + at, policy, plan.head_start) for at in range(plan.count)]
    stop = threading.Event()
    looker = threading.Thread(target=_look_for_ready, args=(plan.url, players, stop))
    looker.start()
    try:
        late_ms = _play_at_pace(players, plan.turn_s)
        fold.flush(10.0)
    finally:
        stop.set()
        looker.join()
    found = _found(players, late_ms, fold)
    fold.close()
    return found


def _play_at_pace(players: Sequence[Player], turn_s: float) -> list[float]:
    begun_s = time.monotonic()
    late_ms: list[float] = []
    turn = 0
    while active := [(at, player) for at, player in enumerate(players) if not player.is_done]:
        for at, player in active:
            due_s = begun_s + turn * turn_s + turn_s * at / len(players)
            wait_s = due_s - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            late_ms.append(max(0.0, -wait_s) * 1000)
            player.take_turn()
        turn += 1
    return late_ms


def _look_for_ready(url: str, players: Sequence[Player], stop: threading.Event) -> None:
    with connect(url) as connected:
        client: Any = connected
        while not stop.wait(POLL_S):
            waiting = [one for one in players if one.asked_s is not None and one.ready_s is None]
            pipeline = client.pipeline(transaction=False)
            for player in waiting:
                pipeline.exists(keys.ready(player.session.member))
            for player, is_ready in zip(waiting, pipeline.execute(), strict=True):
                if is_ready:
                    player.ready_s = time.monotonic()


def _found(players: Sequence[Player], late_ms: list[float], fold: Foldahead) -> Found:
    ready = [(one.ready_s, one.asked_s) for one in players if one.ready_s is not None and one.asked_s is not None]
    waited = [
        one.swapped_turn - (one.crossed_turn or one.swapped_turn) for one in players if one.swapped_turn is not None
    ]
    counters = fold.counters()
    return Found(
        ready_ms=[(end - start) * 1000 for end, start in ready],
        request_ms=[ms for one in players for ms in one.request_ms],
        late_ms=late_ms,
        waited_turns=waited,
        unswapped=[one.number for one in players if one.swapped_turn is None],
        degraded=[one.number for one in players if one.degraded],
        unready=[one.number for one in players if one.ready_s is None],
        rss_mib=rss_mib("self"),
        counters={name: getattr(counters, name) for name in TROUBLE},
    )


def rss_mib(pid: int | str) -> float:
    """Resident memory of a process at its peak."""
    for line in Path(f"/proc/{pid}/status").read_text("utf8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def cpu_s(pid: int) -> float:
    """Seconds that a process has computed since its start."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which that part of all lies; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


def redis_bytes(client: Any, names: Sequence[str]) -> dict[str, int]:
    """Bytes of the keys of sessions, by kind, as Redis counts them."""
    sums: dict[str, int] = {}
    for kind in ("state", "bodies", "ready", "records"):
        key_of = getattr(keys, kind)
        pipeline = client.pipeline(transaction=False)
        for name in names:
            pipeline.memory_usage(key_of(keys.member(WORKSPACE, name)), samples=0)
        sums[kind] = sum(size or 0 for size in pipeline.execute())
    return sums


def measure(
    args: argparse.Namespace, sessions: int, turn_s: float, directory: Path, server: EmbeddedRedis
) -> tuple[list[Found], Row]:
    """Start the processes, let the agents play, look at what it took."""
    settings = Settings(
        redis_url=server.url,
        broker_url=server.url,
        database_url=f"sqlite:///{directory}/foldahead.db",
        summarizer="extract",
        summary_delay_s=args.summary_seconds,
    )
    kinds = ["watch"] * WATCHERS + ["work"] * WORKERS
    children = [Child(kind, settings, directory / f"{kind}-{at}.log") for at, kind in enumerate(kinds)]
    shares = [sessions // args.agents + (at < sessions % args.agents) for at in range(args.agents)]
    plans = [
        Plan(server.url, sum(shares[:at]), count, turn_s, args.threshold, args.head_start)
        for at, count in enumerate(shares)
    ]
    try:
        for child in children:
            child.start()
        for child in children:
            child.wait_ready()
        with (
            connect(server.url) as client,
            ProcessPoolExecutor(args.agents, mp_context=multiprocessing.get_context("spawn")) as agents,
        ):
            found = list(agents.map(play, plans))
            sizes = redis_bytes(client, [f"s{number}" for number in range(sessions)])
        pids = {f"{kind}_{at}": child.pid or 0 for at, (kind, child) in enumerate(zip(kinds, children, strict=True))}
        pids["redis"] = server.pid
        memory: Row = {f"{name}_rss_mib": rss_mib(pid) for name, pid in pids.items()}
        cpu: Row = {f"{name}_cpu_ms_a_session": cpu_s(pid) * 1000 / sessions for name, pid in pids.items()}
    finally:
        for child in children:
            child.ask_to_stop()
        for child in children:
            child.stop()
    per_session: Row = {f"redis_{kind}_bytes": round(size / sessions) for kind, size in sizes.items()}
    return found, memory | cpu | per_session


def fleet(args: argparse.Namespace, sessions: int) -> tuple[Row, list[Target]]:
    """Play one fleet."""
    turn_s = max(args.turn_seconds, sessions / MOST_TURNS_A_SECOND)
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="foldahead-fleet-") as name, EmbeddedRedis() as server:
        found, row = measure(args, sessions, turn_s, Path(name), server)
    ready = [ms for one in found for ms in one.ready_ms]
    requests = [ms for one in found for ms in one.request_ms]
    late = [ms for one in found for ms in one.late_ms]
    waited = [turns for one in found for turns in one.waited_turns]
    unswapped = [number for one in found for number in one.unswapped]
    figures: Row = {
        "sessions": sessions,
        "turn_s": turn_s,
        "swapped": len(waited),
        "ready": len(ready),
        "crossing_to_ready_p50_ms": quantile(ready, 0.5),
        "crossing_to_ready_p95_ms": quantile(ready, 0.95),
        "crossing_to_ready_most_ms": max(ready, default=0.0),
        "degraded": sum(len(one.degraded) for one in found),
        "swaps_that_came_late": sum(turns > 0 for turns in waited),
        "request_p50_ms": quantile(requests, 0.5),
        "request_p99_ms": quantile(requests, 0.99),
        "agent_late_p99_ms": quantile(late, 0.99),
        "link_trouble": sum(one.counters[name] for one in found for name in TROUBLE),
        "agent_rss_mib": max(one.rss_mib for one in found),
        "took_s": time.monotonic() - begun_s,
    }
    targets = [
        Target(f"of {sessions:,} sessions did not swap", 0, float(len(unswapped)), ""),
        Target(f"{sessions:,} sessions: request, p99", REQUEST_P99_MS, quantile(requests, 0.99), "ms"),
    ]
    return figures | row, targets


def run(args: argparse.Namespace) -> Report:
    """Play each fleet once."""
    if args.tiny:
        args.sessions, args.turn_seconds, args.threshold, args.agents = [4], 0.05, 6_000, 1
    played = [fleet(args, sessions) for sessions in args.sessions]
    rows: list[Row] = [
        {"figure": name} | {f"{row['sessions']:,} sessions": row[name] for row, _ in played} for name in played[0][0]
    ]
    return Report(
        "fleet",
        "Fleets of sessions of different content through one watcher and two workers",
        rows,
        {
            "turn_s": f"{args.turn_seconds:g}, or more: at most {MOST_TURNS_A_SECOND} turns a second in all",
            "threshold_tokens": args.threshold,
            "head_start_turns": args.head_start,
            "agent_processes": args.agents,
            "summary_s": args.summary_seconds,
        },
        [target for _, targets in played for target in targets],
        ["crossing to ready holds the time of the summariser, which shares this machine's cores with all else"],
    )


def main(argv: list[str] | None = None) -> None:
    options = parser("Many sessions of different content at a steady pace, through real processes.")
    options.add_argument("--sessions", type=int, nargs="+", default=[100, 1_000, 10_000], help="sizes of the fleets")
    options.add_argument("--turn-seconds", type=float, default=5.0)
    options.add_argument("--threshold", type=int, default=30_000, help="tokens (default: the policy's)")
    options.add_argument("--head-start", type=int, default=14, help="turns that sessions have behind them, at most")
    options.add_argument("--agents", type=int, default=2, help="agent processes")
    options.add_argument("--summary-seconds", type=float, default=0.0, help="slows every summary by so much")
    args = options.parse_args(argv)
    finish(run(args), args.out)


if __name__ == "__main__":
    main()
