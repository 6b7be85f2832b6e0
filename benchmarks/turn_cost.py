"""What a turn costs on the caller's thread as the history grows, beside others who do the same work.

    python -m benchmarks.turn_cost --peers .peers/bin/python

A turn is `view` before the request and `publish` after it; each meets one new message. Peers are measured in the same
run, in the interpreter that has them (`benchmarks/requirements.txt`); those that are not installed are left out.
"""

import gc
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.histories import Author, History
from benchmarks.report import Report, Row, Target, finish, parser
from benchmarks.sessions import Lone, swapped
from foldahead import Policy, Session

NEVER = 10**9
OURS = "foldahead"
CHECK_MS, SWAP_MS = 0.01, {1_000: 2.0, 10_000: 20.0}
TURNS, STRETCHES = 40, 4
"""The machine may be shared: of some stretches of turns the quickest is shown, by its median."""


def quiet_policy() -> Policy:
    """Nothing is due: the price of looking."""
    return Policy(threshold_tokens=NEVER, hard_cap_tokens=2 * NEVER, window_tokens=2 * NEVER)


def due_policy(messages: int) -> Policy:
    """Half the history is over the threshold: a swap is due at the next view."""
    return Policy(threshold_tokens=messages * 60, hard_cap_tokens=NEVER, summary_max_tokens=4_096, target_ratio=1.0)


def measure_ours(size: int, turns: int, swaps: int) -> Row:
    """Medians of the parts of a turn at one size."""
    author = Author()
    history = author.history(size + 1 - size % 2)
    look, view, publish = ordinary_turns(Lone(quiet_policy()).session, history, author, turns)
    swap, after, hard_cap = swapping_turns(size, swaps)
    return {
        "who": OURS,
        "messages": size,
        "check_ms": look,
        "view_ms": view,
        "publish_ms": publish,
        "swap_ms": swap,
        "view_after_swap_ms": after,
        "extract_at_cap_ms": hard_cap,
    }


def ordinary_turns(session: Session, history: History, author: Author, turns: int) -> tuple[float, float, float]:
    """Ms of a look with nothing new, of `view` with a new message, of `publish` with one: the best stretch's median."""
    session.publish(history)
    stretches = [_stretch(session, history, author, turns) for _ in range(STRETCHES)]
    look, view, publish = (min(medians) for medians in zip(*stretches, strict=True))
    return look, view, publish


def _stretch(session: Session, history: History, author: Author, turns: int) -> tuple[float, float, float]:
    looks: list[float] = []
    views: list[float] = []
    publishes: list[float] = []
    for _ in range(turns):
        views.append(timed(session.view, history))
        looks.append(timed(session.view, history))
        answer, results = author.turn()
        history.append(answer)
        publishes.append(timed(session.publish, history))
        history.append(results)
    return statistics.median(looks), statistics.median(views), statistics.median(publishes)


def swapping_turns(size: int, swaps: int) -> tuple[float, float, float]:
    """Median ms of the turn that swaps, of the turn behind it, and of the swap to `extract` at the hard cap."""
    swap: list[float] = []
    after: list[float] = []
    hard_cap: list[float] = []
    for seed in range(swaps):
        author = Author(seed)
        history = author.history(size + 1 - size % 2)
        lone = Lone(due_policy(size))
        session = lone.session
        session.publish(history)
        lone.hand_summary()
        swap.append(timed(session.view, history))
        if not swapped(session.view(history), history):
            raise RuntimeError(f"no swap at {size} messages")
        history.extend(author.turn())
        after.append(timed(session.view, history))
        hard_cap.append(capped_turn(size, history))
    return statistics.median(swap), statistics.median(after), statistics.median(hard_cap)


def capped_turn(size: int, history: History) -> float:
    """Ms of a view at the hard cap with nothing ready, the link's thread having looked into the span before."""
    lone = Lone(Policy(threshold_tokens=size * 30, hard_cap_tokens=size * 60, target_ratio=1.0))
    session = lone.session
    session.publish(history)
    lone.told()
    elapsed = timed(session.view, history)
    if not swapped(session.view(history), history):
        raise RuntimeError(f"no way down at {size} messages")
    return elapsed


def timed(action: Any, argument: Any) -> float:
    """Milliseconds of one call."""
    begun = time.perf_counter_ns()
    action(argument)
    return (time.perf_counter_ns() - begun) / 1e6


def measure_peers(python: str, sizes: list[int], repeats: int) -> dict[str, Any]:
    """What `peers` finds in another interpreter."""
    command = [python, "-W", "ignore", "-m", "benchmarks.peers", "--repeats", str(repeats)]
    root = Path(__file__).parent.parent
    run = subprocess.run(
        [*command, "--sizes", ",".join(map(str, sizes))],
        capture_output=True,
        cwd=root,
        text=True,
        check=False,
    )
    if run.returncode:
        raise SystemExit(f"peers: {run.stderr.strip().splitlines()[-1] if run.stderr else run.returncode}")
    return json.loads(run.stdout)


def targets_of(rows: list[Row]) -> list[Target]:
    """The issue's figures against ours."""
    found: list[Target] = []
    for row in rows:
        if row["who"] != OURS:
            continue
        size = int(row["messages"] or 0)
        found.append(Target(f"check at {size:,} messages", CHECK_MS, _ms(row["check_ms"]), "ms"))
        if size in SWAP_MS:
            found.append(Target(f"swapping turn at {size:,} messages", SWAP_MS[size], _ms(row["swap_ms"]), "ms"))
    return found


def _ms(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def run(sizes: list[int], python: str, turns: int, swaps: int, peer_repeats: int) -> Report:
    """Ours and theirs at each size."""
    gc.collect()
    gc.freeze()
    peers = measure_peers(python, sizes, peer_repeats)
    rows = [measure_ours(size, turns, swaps) for size in sizes] + peers["rows"]
    rows.sort(key=lambda row: (int(row["messages"] or 0), row["who"] != OURS))
    notes = [
        f"ours: median of {turns} turns, of the quickest of {STRETCHES} stretches; theirs: median",
        "check: a look with nothing new; view and publish: with one new message, which is hashed and weighed once",
        "swap: the summary is there (a peer's summariser answers at once); what a summary takes is no part of it",
    ]
    if peers["missing"]:
        notes.append(
            f"not installed for {Path(python).name}, left out: {', '.join(peers['missing'])}; `python3 -m venv .peers"
            " && .peers/bin/pip install -r benchmarks/requirements.txt`, then --peers .peers/bin/python"
        )
    return Report(
        "turn_cost",
        "A turn on the caller's thread, median ms",
        rows,
        {"sizes": sizes, "turns": turns, "swaps": swaps},
        targets_of(rows),
        notes,
        peers["versions"],
    )


def main(argv: list[str] | None = None) -> None:
    options = parser("What a turn costs at 100, 1,000 and 10,000 messages, beside LangChain, langmem, CliffCompaction.")
    options.add_argument("--sizes", default="100,1000,10000")
    options.add_argument("--peers", default=sys.executable, help="the Python that has the peers installed")
    args = options.parse_args(argv)
    sizes = [40] if args.tiny else [int(size) for size in args.sizes.split(",")]
    turns, swaps, repeats = (3, 1, 1) if args.tiny else (TURNS, 5, 15)
    finish(run(sizes, args.peers, turns, swaps, repeats), args.out)


if __name__ == "__main__":
    main()
