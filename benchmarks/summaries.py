"""How many summaries one worker process writes at once, what CPU each costs, and what a second worker adds.

    python -m benchmarks.summaries

Real processes: an embedded Redis, a watcher, Celery workers, and a stand-in for the Claude API that answers after ten
seconds. Every session has another history of about 30,000 tokens, so that no summary serves two of them.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import redis

from benchmarks.databases import database
from benchmarks.histories import Author
from benchmarks.report import Report, Row, Target, finish, parser
from foldahead import Foldahead, Policy, Session, keys
from foldahead_worker.embedded.redis_server import EmbeddedRedis
from foldahead_worker.library import load
from foldahead_worker.server import connect
from foldahead_worker.settings import Settings
from foldahead_worker.stack import Child
from foldahead_worker.standin.options import Options
from foldahead_worker.standin.process import start_standin

QUEUE = 120
"""Six rounds of two workers, so that start and end count little; with 160 the stand-in's rate limit is what is seen."""
AT_ONCE, CPU_MS, TWO_WORKERS = 200, 60.0, 1.9
SPAN_MESSAGES, RESULT_CHARS = 85, 2_400
"""About 34,000 tokens, 30,000 of them ahead of the preserved tail."""
READY_TIMEOUT_S = 120.0
"""On a machine that others use."""
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Run:
    """Sessions that all want a summary, and the processes that write them."""

    def __init__(
        self, sessions: int, workers: int, concurrency: int, answer_s: float, policy: Policy, messages: int
    ) -> None:
        self.sessions = sessions
        self.workers = workers
        self.concurrency = concurrency
        self.answer_s = answer_s
        self.policy = policy
        self.messages = messages

    def measure(self) -> Row:
        """Publish all, then start watcher and workers; wait until every session has its summary."""
        with ExitStack() as stack:
            server = stack.enter_context(EmbeddedRedis())
            url = stack.enter_context(database("sqlite"))
            standin = stack.enter_context(start_standin(Options(first_byte_s=self.answer_s)))
            logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="foldahead-bench-")))
            client = stack.enter_context(connect(server.url))
            load(client)
            members = self._publish(server.url)
            settings = self._settings(server.url, url, standin.url)
            children = [Child("watch", settings, logs / "watch.log")]
            children += [Child("work", settings, logs / f"work-{at}.log") for at in range(self.workers)]
            for child in children:
                stack.callback(child.stop)
            for child in children[1:]:
                child.start()
                child.wait_ready(READY_TIMEOUT_S)
            before_s, all_before_s = sum(map(_cpu_s, children[1:])), _cpu_of_all_s()
            children[0].start()
            children[0].wait_ready(READY_TIMEOUT_S)
            begun_s = time.perf_counter()
            self._wait_for(client, members, children)
            elapsed_s = time.perf_counter() - begun_s
            cpu_s, all_s = sum(map(_cpu_s, children[1:])) - before_s, _cpu_of_all_s() - all_before_s
            memory = max(_memory_mib(child) for child in children[1:])
            most = most_at_once([(call.at_unix_s, call.at_unix_s + call.seconds) for call in standin.ledger("message")])
        return {
            "summaries": self.sessions,
            "workers": self.workers,
            "concurrency": self.concurrency,
            "answer_s": self.answer_s,
            "most_at_once": most,
            "all_done_s": elapsed_s,
            "a_second": self.sessions / elapsed_s,
            "cpu_ms_each": cpu_s / self.sessions * 1000,
            "cpu_ms_each_in_all": all_s / self.sessions * 1000,
            "worker_memory_mib": memory,
        }

    def _publish(self, url: str) -> list[str]:
        fold = Foldahead(url)
        kept: list[Session] = []
        for number in range(self.sessions):
            session = fold.session(f"s{number}", workspace="bench", policy=self.policy)
            session.publish(Author(number, RESULT_CHARS).history(self.messages))
            kept.append(session)  # the link holds sessions weakly
        if not fold.flush(120.0):
            raise RuntimeError("the bodies did not arrive")
        fold.close()
        return [session.member for session in kept]

    def _settings(self, redis_url: str, database_url: str, standin_url: str) -> Settings:
        return Settings(
            redis_url=redis_url,
            broker_url=redis_url,
            database_url=database_url,
            anthropic_api_key="stand-in",
            anthropic_base_url=standin_url,
            concurrency=self.concurrency,
        )

    def _wait_for(self, client: "redis.Redis", members: Sequence[str], children: Sequence[Child]) -> None:
        until_s = time.perf_counter() + 60.0 + 4 * self.answer_s * self.sessions / self.concurrency
        missing = list(members)
        while missing:
            time.sleep(0.1)
            pipeline = client.pipeline(transaction=False)
            for member in missing:
                pipeline.exists(keys.ready(member))
            missing = [member for member, there in zip(missing, pipeline.execute(), strict=True) if not there]
            if time.perf_counter() > until_s:
                words = "; ".join(child.last_words() for child in children)
                raise RuntimeError(f"{len(missing)} of {self.sessions} summaries did not come: {words}")


def most_at_once(calls: Sequence[tuple[float, float]]) -> int:
    """How many calls were open at one time."""
    steps = sorted([(begun, 1) for begun, _ in calls] + [(ended, -1) for _, ended in calls])
    open_now = most = 0
    for _, step in steps:
        open_now += step
        most = max(most, open_now)
    return most


def _cpu_s(child: Child) -> float:
    return _ticks(_stat(f"/proc/{child.pid}/stat")) / TICKS_A_SECOND


def _cpu_of_all_s() -> float:
    """CPU of this process and of all that descend from it: Redis, stand-in, watcher, workers."""
    stats = {path.parent.name: _stat(str(path)) for path in Path("/proc").glob("[0-9]*/stat")}
    ours, grown = {str(os.getpid())}, True
    while grown:
        more = {pid for pid, fields in stats.items() if fields[1:2] and fields[1] in ours} - ours
        ours, grown = ours | more, bool(more)
    return sum(_ticks(stats[pid]) for pid in ours) / TICKS_A_SECOND


def _stat(path: str) -> list[str]:
    """The fields of a process from its state on; none where it has ended."""
    try:
        return Path(path).read_text("utf8").rpartition(")")[2].split()
    except OSError:
        return []


def _ticks(fields: list[str]) -> int:
    return int(fields[11]) + int(fields[12])


def _memory_mib(child: Child) -> float:
    for line in Path(f"/proc/{child.pid}/status").read_text("utf8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def run(args: argparse.Namespace) -> Report:
    """One worker with all at once; then one against two, each with few at once and many to do."""
    if args.tiny:
        policy = msgspec.structs.replace(Policy(), threshold_tokens=3_000, min_span_tokens=200)
        rows = [Run(3, 1, 4, 0.1, policy, 41).measure()]
    else:
        policy = Policy()
        rows = [Run(args.summaries, 1, args.summaries + 20, args.answer_seconds, policy, SPAN_MESSAGES).measure()]
        few = [Run(args.queue, workers, 10, 3.0, policy, SPAN_MESSAGES).measure() for workers in (1, 2)]
        rows += few
    targets = [
        Target("summaries at once in one worker", args.summaries, _number(rows[0]["most_at_once"]), "", at_most=False),
        Target("CPU a summary of 30,000 tokens", CPU_MS, _number(rows[0]["cpu_ms_each"]), "ms"),
    ]
    if len(rows) == 3:
        gain = float(rows[2]["a_second"] or 0) / float(rows[1]["a_second"] or 1)
        targets.append(Target("two workers against one", TWO_WORKERS, gain, "x", at_most=False))
    return Report(
        "summaries",
        "Summaries by the text summariser, a stand-in API that answers late",
        rows,
        {"span_messages": SPAN_MESSAGES, "summaries": args.summaries},
        targets,
        [
            "cpu: all of the worker process: Celery, lease, bodies, chain, rendering, redaction, SDK, index, commit",
            "cpu_in_all: with watcher (its start of about a second too), Redis, stand-in and this driver",
            "all_done: from the moment that the watcher, which makes the jobs, is ready",
        ],
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def main(argv: list[str] | None = None) -> None:
    options = parser("Summaries at once in one worker, CPU for each, and what a second worker adds.")
    options.add_argument("--summaries", type=int, default=AT_ONCE)
    options.add_argument("--answer-seconds", type=float, default=10.0)
    options.add_argument("--queue", type=int, default=QUEUE, help="summaries for one worker against two")
    args = options.parse_args(argv)
    finish(run(args), args.out)


if __name__ == "__main__":
    main()
