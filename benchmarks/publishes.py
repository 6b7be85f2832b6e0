"""How many publishes a second one Redis takes (counts only, no bodies), and what gives out first.

    python -m benchmarks.publishes

`agents`: processes with sessions over their links, as fast as they can. `calls`: processes that send publishes which
were encoded before, so that as little as possible of the machine goes to the senders. The server's own time a call
says what one Redis could take with its core to itself.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import redis

from benchmarks.report import Report, Row, Target, finish, parser
from foldahead import Policy, keys, wire
from foldahead.calls import Publish, publish_call
from foldahead.link import Link
from foldahead_worker.embedded.redis_server import EmbeddedRedis
from foldahead_worker.library import load

TARGET_A_SECOND = 30_000
SESSIONS = 200
PIPELINE = 100
"""What the link sends in one exchange at most."""
START_LEAD_S = 1.5


def a_standing(messages: int) -> wire.Standing:
    """A session well below its threshold: nothing is wanted of the servers."""
    return wire.Standing(
        dialect="anthropic",
        policy=Policy(),
        messages=messages,
        head=bytes(32),
        turns=messages // 2,
        turn_id=str(messages // 2),
        pending_tokens=9_000,
        prefix_tokens=0,
        tail_tokens=4_000,
        growth_tokens=400.0,
        interval_s=5.0,
        model="claude-haiku-5-5",
    )


class Teller:
    """A session of which only the counts are told: what the link asks of it costs next to nothing."""

    def __init__(self, name: str) -> None:
        self.member = keys.member("bench", name)
        self._delta = wire.Delta(workspace="bench", session=name, standing=a_standing(40), due_in_s=None, upload=False)

    def delta(self) -> wire.Delta:
        return self._delta

    def head(self, at: int) -> bytes | None:  # noqa: ARG002 - what the link asks of a session
        return None

    def bodies(self, start: int) -> Iterator[tuple[bytes, bytes]]:  # noqa: ARG002
        return iter(())

    def records(self) -> Sequence[bytes]:
        return ()

    def take_events(self) -> Sequence[bytes]:
        return ()

    def receive(self, answer: wire.Answer) -> None:
        pass


def tell_over_link(url: str, number: int, start_s: float, seconds: float) -> int:
    """One agent process: every session announces again as soon as it may. Returns acknowledged publishes."""
    link = Link(url)
    tellers = [Teller(f"agent-{number}-{at}") for at in range(SESSIONS)]
    time.sleep(max(0.0, start_s - time.time()))
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        for teller in tellers:
            link.announce(teller)
        time.sleep(0.002)
    counters = link.counters()
    link.close(5.0)
    if counters.failed_exchanges or counters.refused:
        raise SystemExit(f"{counters.failed_exchanges} exchanges failed, {counters.refused} calls were refused")
    return counters.publishes


def send_encoded(url: str, number: int, start_s: float, seconds: float) -> int:
    """Send publishes that were encoded beforehand, in pipelines. Returns how many were answered."""
    client = redis.Redis.from_url(url)
    connection: Any = client.connection_pool.get_connection()
    batches = [_encoded_batch(connection, number, at) for at in range(40)]
    time.sleep(max(0.0, start_s - time.time()))
    end_s = time.perf_counter() + seconds
    done = 0
    for batch in _round_and_round(batches):
        connection.send_packed_command(batch)
        for _ in range(PIPELINE):
            connection.read_response()
        done += PIPELINE
        if time.perf_counter() >= end_s:
            return done
    return done


def _round_and_round(batches: list[list[bytes]]) -> Iterator[list[bytes]]:
    while True:
        yield from batches


def _encoded_batch(connection: Any, number: int, batch: int) -> list[bytes]:
    """Publishes of sessions in turn; another incarnation each round, so that none is old news."""
    standing = wire.encode(a_standing(40))
    calls = [
        publish_call(
            Publish(
                member=keys.member("bench", f"call-{number}-{at}"),
                incarnation=f"{batch:032x}",
                n=1,
                standing=standing,
                messages=40,
                head=bytes(32),
                due_ms=None,
                upload=False,
            )
        )
        for at in range(PIPELINE)
    ]
    return connection.pack_commands([call.command for call in calls])


KINDS: dict[str, Callable[[str, int, float, float], int]] = {"agents": tell_over_link, "calls": send_encoded}


def measure(server: EmbeddedRedis, kind: str, processes: int, seconds: float) -> Row:
    """Some processes of one kind at once."""
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        client.config_resetstat()
        cpu_before = _server_cpu_s(client)
        start_s = time.time() + START_LEAD_S
        children = [_child(kind, server.url, number, start_s, seconds) for number in range(processes)]
        outcomes = [json.loads(_output(child)) for child in children]
        busy_s = _server_cpu_s(client) - cpu_before
        stats = cast("dict[str, Any]", client.info("commandstats"))
        memory = cast("dict[str, Any]", client.info("memory"))["used_memory"]
        sessions = int(cast("int", client.dbsize()))
    a_call_us = float(stats["cmdstat_fcall"]["usec_per_call"])
    done = sum(outcome["publishes"] for outcome in outcomes)
    return {
        "senders": kind,
        "processes": processes,
        "publishes_a_second": done / seconds,
        "redis_core_share": busy_s / seconds,
        "senders_core_share": sum(outcome["cpu_s"] for outcome in outcomes) / seconds,
        "redis_us_a_call": a_call_us,
        "redis_us_a_call_all_in": busy_s / done * 1e6,
        "bytes_a_session": memory // max(1, sessions),
    }


def _server_cpu_s(client: "redis.Redis") -> float:
    info = cast("dict[str, float]", client.info("cpu"))
    return info["used_cpu_sys"] + info["used_cpu_user"]


def _child(kind: str, url: str, number: int, start_s: float, seconds: float) -> "subprocess.Popen[str]":
    arguments = ["--child", kind, url, str(number), str(start_s), str(seconds)]
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.publishes", *arguments],
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
    )


def _output(child: "subprocess.Popen[str]") -> str:
    output, _ = child.communicate(timeout=120)
    if child.returncode:
        raise SystemExit(f"a sender ended with status {child.returncode}")
    return output


def be_child(arguments: Sequence[str]) -> None:
    """A sender process; says on its standard output what it did."""
    kind, url, number, start_s, seconds = arguments
    before_s = time.process_time()
    done = KINDS[kind](url, int(number), float(start_s), float(seconds))
    json.dump({"publishes": done, "cpu_s": time.process_time() - before_s}, sys.stdout)


def run(args: argparse.Namespace) -> Report:
    """Both kinds, with more and more processes."""
    plan = [("calls", 1)] if args.tiny else [("agents", 1), ("agents", 2), ("agents", 4), ("calls", 1), ("calls", 2)]
    with EmbeddedRedis() as server:
        with redis.Redis.from_url(server.url) as client:
            load(client)
        rows = [measure(server, kind, processes, args.seconds) for kind, processes in plan]
    best = max(float(row["publishes_a_second"] or 0) for row in rows)
    all_in_us = min(float(row["redis_us_a_call_all_in"] or 0) for row in rows)
    return Report(
        "publishes",
        "Publishes a second on one Redis, counts only",
        rows,
        {"seconds": args.seconds, "sessions_a_process": SESSIONS, "pipeline": PIPELINE},
        [
            Target("publishes a second, this machine", TARGET_A_SECOND, best, "/s", at_most=False),
            Target(
                "publishes a second that one Redis core has time for",
                TARGET_A_SECOND,
                1e6 / all_in_us,
                "/s",
                at_most=False,
            ),
        ],
        [
            "what gives out first is whichever share comes near to what the machine has: 1.0 for Redis's one thread,"
            " the other cores for the senders",
            "redis_us_a_call: in the function; all_in: with reading the call and writing the answer",
        ],
    )


def main(argv: list[str] | None = None) -> None:
    options = parser("Publishes a second on one Redis from several agent processes.")
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    args = options.parse_args(argv)
    if args.child:
        be_child(args.child)
        return
    if args.tiny:
        args.seconds = 0.2
    finish(run(args), args.out)


if __name__ == "__main__":
    main()
