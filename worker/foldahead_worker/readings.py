"""How the server side stands at a moment, and what is wrong with that. The rule is pure; `take_reading` asks.

A service is unhealthy when its work is not done, not only when a process is gone.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from foldahead_worker.clock import now_ms
from foldahead_worker.store import Store
from foldahead_worker.store.status import queue
from foldahead_worker.switchboard import Switchboard

ROUNDS_IN_A_ROW = 3
"""A loop whose rounds fail so often in a row does no work; one failure is a restart of Redis."""
OVERDUE_S = 10.0
"""A session that has wanted a look for so long: no watcher runs, or none keeps up."""
INBOX_BEHIND = 50_000
"""Half of what the inbox holds: soon it forgets records that nobody has kept."""


class Counted(Protocol):
    """A loop, as far as its failures go."""

    name: str
    failures: int
    in_a_row: int


class Reading(Struct, frozen=True, kw_only=True):
    """How things stand. Counts are of the whole service, loops of this process."""

    oldest_due_s: float
    """How long the job that became due first has waited for a worker."""
    queued: int
    leased: int
    overdue_s: float
    """How long the session that wanted a look first has waited for a watcher."""
    waiting: Mapping[str, int]
    """Entries in Redis, by where: armed, inbox, pending, restore, events."""
    loop_failures: Mapping[str, int]
    loops_failing: Mapping[str, int] = {}
    """Failed rounds in a row, of loops that do not work at the moment."""


def take_reading(store: Store, switchboard: Switchboard, loops: Iterable[Counted] = ()) -> Reading:
    """Ask the database and Redis. Raises `StoreError` and redis.RedisError."""
    jobs = queue(store, now_ms())
    counts = switchboard.figures.counts()
    counted = tuple(loops)
    return Reading(
        oldest_due_s=jobs.oldest_due_age_ms / 1000,
        queued=jobs.queued,
        leased=jobs.leased,
        overdue_s=switchboard.figures.overdue_ms() / 1000,
        waiting={
            "armed": counts.armed,
            "inbox": counts.inbox_lag,
            "pending": counts.inbox_pending,
            "restore": counts.restores,
        },
        loop_failures={loop.name: loop.failures for loop in counted},
        loops_failing={loop.name: loop.in_a_row for loop in counted if loop.in_a_row},
    )


def faults_of(reading: Reading, due_limit_s: float) -> tuple[str, ...]:
    """What is wrong, one line each, with what to do; empty when all is well. Pure."""
    faults: list[str] = []
    if reading.oldest_due_s > due_limit_s:
        faults.append(
            f"a job has been due for {reading.oldest_due_s:.0f} s (limit {due_limit_s:.0f} s): no worker takes it; "
            "start one, or start more"
        )
    if reading.overdue_s > OVERDUE_S:
        faults.append(f"a session has waited {reading.overdue_s:.0f} s for a watcher: start one with `foldahead watch`")
    if reading.waiting.get("inbox", 0) > INBOX_BEHIND:
        faults.append(f"{reading.waiting['inbox']} reports of agents are not kept yet: start another watcher")
    for loop, rounds in reading.loops_failing.items():
        if rounds >= ROUNDS_IN_A_ROW:
            faults.append(f"the loop {loop} failed {rounds} times in a row: its log says why")
    return tuple(faults)
