"""A session of a thousand turns: what is sent with and without foldahead, what grows, what a turn costs at its end.

    python -m benchmarks.long_session

In one process, with summaries by rules that are ready two turns after they were asked for. The same core decides here
and in a real session.
"""

import argparse
import gc
import time
import tracemalloc
from dataclasses import dataclass, field

from benchmarks.histories import Author, History
from benchmarks.report import Report, Row, Target, Timings, finish, parser
from foldahead import Policy
from foldahead.core.dialects import get_dialect
from foldahead.core.record import encode_record
from foldahead.core.tokens import estimate
from foldahead.testing import LocalSession

DELAY_TURNS = 2
MOST_SLOWER = 1.5
"""A turn at the end against one at the beginning."""


@dataclass
class Window:
    """A stretch of the session."""

    view: Timings = field(default_factory=Timings)
    publish: Timings = field(default_factory=Timings)
    sent_tokens: int = 0
    whole_tokens: int = 0
    swaps: int = 0
    most_sent_tokens: int = 0


class Played:
    """A session while it is played; counts tokens of each message once."""

    def __init__(self, policy: Policy, result_chars: int) -> None:
        self.session = LocalSession(policy, delay_turns=DELAY_TURNS)
        self._author = Author(7, result_chars)
        self.history: History = [self._author.opening()]
        self._tokens: dict[int, int] = {}
        self._dialect = get_dialect("anthropic")
        self._whole_tokens = 0
        self._counted = 0

    def turn(self, window: Window) -> None:
        """A view, its answer, a publish, the results."""
        records = len(self.session.records)
        with window.view:
            view = self.session.view(self.history)
        sent = sum(map(self._tokens_of, view))
        window.sent_tokens += sent
        window.most_sent_tokens = max(window.most_sent_tokens, sent)
        window.whole_tokens += self._whole()
        window.swaps += len(self.session.records) > records
        answer, results = self._author.turn()
        self.history.append(answer)
        with window.publish:
            self.session.publish(self.history)
        self.history.append(results)

    def _whole(self) -> int:
        for message in self.history[self._counted :]:
            self._whole_tokens += self._tokens_of(message)
        self._counted = len(self.history)
        return self._whole_tokens

    def _tokens_of(self, message: dict[str, object]) -> int:
        known = self._tokens.get(id(message))
        if known is None:
            known = self._tokens[id(message)] = estimate(self._dialect.read(message, 0))
        return known

    def record_bytes(self) -> int:
        """All records as JSON."""
        return sum(len(encode_record(record)) for record in self.session.records)


def play(turns: int, windows: int, policy: Policy, result_chars: int) -> list[Row]:
    """One row for each stretch of the session."""
    played = Played(policy, result_chars)
    rows: list[Row] = []
    each = turns // windows
    gc.collect()
    for number in range(windows):
        window = Window()
        for _ in range(each):
            played.turn(window)
        rows.append(
            {
                "turns": f"{number * each + 1}-{(number + 1) * each}",
                "messages": len(played.history),
                "view_p50_ms": window.view.median_ms,
                "view_p99_ms": window.view.quantile_ms(0.99),
                "publish_p50_ms": window.publish.median_ms,
                "tokens_sent": window.sent_tokens,
                "tokens_without": window.whole_tokens,
                "most_in_one_view": window.most_sent_tokens,
                "swaps": window.swaps,
                "records": len(played.session.records),
                "record_bytes": played.record_bytes(),
            }
        )
    return rows


def memory_kib(turns: int, policy: Policy, result_chars: int) -> Row:
    """What foldahead holds beside the agent's own messages, after a tenth of the turns and after all."""
    found: list[float] = []
    for some in (turns // 10, turns):
        author = Author(7, result_chars)
        history = author.history(2 * some + 1)
        growing: History = []
        session = LocalSession(policy, delay_turns=DELAY_TURNS)
        gc.collect()
        tracemalloc.start()
        for at in range(0, len(history), 2):
            growing.append(history[at])
            session.view(growing)
            growing += history[at + 1 : at + 2]
            session.publish(growing)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        found.append(held / 1024)
    return {"held_kib_at_a_tenth": found[0], "held_kib_at_the_end": found[1]}


def run(args: argparse.Namespace) -> Report:
    """The session in stretches, then what it holds."""
    turns, windows = (40, 4) if args.tiny else (args.turns, 10)
    policy = Policy(threshold_tokens=4_000, hard_cap_tokens=9_000, min_span_tokens=200) if args.tiny else Policy()
    begun_s = time.perf_counter()
    rows = play(turns, windows, policy, args.result_chars)
    elapsed_s = time.perf_counter() - begun_s
    memory = memory_kib(turns, policy, args.result_chars)
    sent, without = _total(rows, "tokens_sent"), _total(rows, "tokens_without")
    # The first stretch has no summary in it: the second is what the end is compared with.
    slower = float(rows[-1]["view_p50_ms"] or 0) / float(rows[1]["view_p50_ms"] or 1)
    return Report(
        "long_session",
        f"A session of {turns} turns",
        rows,
        {"turns": turns, "delay_turns": DELAY_TURNS, "elapsed_s": round(elapsed_s, 1)} | memory,
        [Target("a view at the end against one after the first swaps", MOST_SLOWER, slower, "x")],
        [
            f"tokens sent: {sent:,} of {without:,} without foldahead ({sent / without:.1%})",
            f"held beside the agent's messages: {memory['held_kib_at_a_tenth']:,.0f} KiB at a tenth,"
            f" {memory['held_kib_at_the_end']:,.0f} KiB at the end",
        ],
    )


def _total(rows: list[Row], name: str) -> int:
    return sum(int(row[name] or 0) for row in rows)


def main(argv: list[str] | None = None) -> None:
    options = parser("A session of a thousand turns: tokens, growth, cost of a turn at its end.")
    options.add_argument("--turns", type=int, default=1_000)
    options.add_argument("--result-chars", type=int, default=2_400)
    args = options.parse_args(argv)
    finish(run(args), args.out)


if __name__ == "__main__":
    main()
