"""Everything that is counted on the server side, defined once. A process makes one `Metrics` and passes it on.

docs/operations.md, "The figures", says what each means and what to do about it.
"""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from foldahead.core.events import CompactionCompleted, CompactionFailed, Envelope, Event
from foldahead_worker.readings import Reading

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
"""Buckets that show our own delay (25 ms wanted) as well as a model that takes minutes."""
PICO = 1_000_000_000_000


class Metrics:
    """The figures of one process. Thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        """What the process's page shows."""
        in_registry: dict[str, Any] = {"registry": self.registry, "namespace": "foldahead"}
        self._swaps = Counter(
            "swap_outcomes",
            "Swaps by how they came: ready, late (turns went out before it), stale (ready, never shown), miss (turns "
            "that were due and had nothing), degraded (rules or truncation), healed, rejected (by the provider)",
            ["outcome"],
            **in_registry,
        )
        self._answers = Counter(
            "answers", "Sessions given a summary, by where it came from: made or cache", ["source"], **in_registry
        )
        self._failures = Counter("failures", "Compactions that failed, by failure mode", ["mode"], **in_registry)
        self._crossing = Histogram(
            "crossing_to_ready_seconds",
            "From a session's wish being written down to its summary being there",
            ["kind"],
            buckets=SECONDS,
            **in_registry,
        )
        self._look = Histogram(
            "look_delay_seconds",
            "From the moment a session wanted a look to a watcher's look, by Redis's clock",
            buckets=SECONDS,
            **in_registry,
        )
        self._summary = Histogram(
            "summary_seconds", "One call of a summariser", ["model", "kind"], buckets=SECONDS, **in_registry
        )
        self._tokens = Counter(
            "summary_tokens", "Tokens billed for summaries", ["model", "kind", "direction"], **in_registry
        )
        self._dollars = Counter("spend_usd", "What summaries cost", ["model", "kind"], **in_registry)
        self._jobs = Counter(
            "jobs_ended",
            "Leases by how they ended; `nothing`: a wake-up without work",
            ["kind", "outcome"],
            **in_registry,
        )
        self._left_alone = Counter(
            "left_alone", "Looks after which no summary was asked for, by why", ["reason"], **in_registry
        )
        self._set_aside = Counter(
            "set_aside",
            "Sessions, or reports of theirs, that could not be dealt with, by where; the log has each",
            ["where"],
            **in_registry,
        )
        self._oldest = Gauge(
            "oldest_due_job_seconds", "How long the job that became due first has waited", **in_registry
        )
        self._queue = Gauge("jobs", "Jobs by state: queued, leased", ["state"], **in_registry)
        self._waiting = Gauge("waiting", "Things that wait in Redis, by where", ["where"], **in_registry)
        self._loops = Gauge("loop_failures", "Rounds of a loop that failed since the start", ["loop"], **in_registry)
        self._breakers = Gauge(
            "breaker_open", "1 where calls of a provider account are held back", ["account"], **in_registry
        )
        Info("build", "The version that runs", **in_registry).info({"version": version("foldahead")})

    def heard(self, envelope: Envelope) -> None:
        """An agent reported an event."""
        match envelope.type:
            case "session.swapped":
                self._swapped(envelope.payload)
            case "session.truncated":
                self._swaps.labels("degraded").inc()
            case "session.healed":
                self._swaps.labels("healed").inc()
            case "session.rejected":
                self._swaps.labels("rejected").inc()
            case "session.compaction_failed":
                self._failures.labels(_known_mode(envelope.payload.get("failure_mode"))).inc()
            case _:
                pass

    def _swapped(self, payload: Mapping[str, object]) -> None:
        waited = payload.get("waited_turns")
        turns = waited if isinstance(waited, int) and 0 <= waited < MOST_TURNS else 0
        self._swaps.labels("miss").inc(turns)
        if payload.get("cache_key") is None:
            self._swaps.labels("degraded").inc()
        else:
            self._swaps.labels("late" if turns else "ready").inc()

    def passed(self, count: int) -> None:
        """Summaries that were ready were passed by a later one before any view showed them."""
        self._swaps.labels("stale").inc(count)

    def told(self, event: Event) -> None:
        """The server side reported an event."""
        if isinstance(event, CompactionCompleted):
            self._answers.labels("cache" if event.cache_hit else "made").inc()
        elif isinstance(event, CompactionFailed):
            self._failures.labels(event.failure_mode).inc()

    def looked(self, overdue_ms: int) -> None:
        """A watcher looked at a session that had wanted it for so long."""
        self._look.observe(max(0, overdue_ms) / 1000)

    def left_alone(self, reason: str) -> None:
        """A watcher looked at a session and asked for nothing; `reason` is of a small set."""
        self._left_alone.labels(reason).inc()

    def set_aside(self, where: str) -> None:
        """A session, or a report of one, could not be dealt with, and stands in nobody's way any more."""
        self._set_aside.labels(where).inc()

    def ready(self, kind: str, waited_ms: int) -> None:
        """A session was given the summary that it had been waiting for so long."""
        self._crossing.labels(kind).observe(max(0, waited_ms) / 1000)

    def called(self, model: str, kind: str, seconds: float) -> None:
        """A summariser was called, whatever came of it."""
        self._summary.labels(model, kind).observe(seconds)

    def billed(self, model: str, kind: str, *, input_tokens: int, output_tokens: int, picodollars: int) -> None:
        """A call was billed."""
        self._tokens.labels(model, kind, "input").inc(input_tokens)
        self._tokens.labels(model, kind, "output").inc(output_tokens)
        self._dollars.labels(model, kind).inc(picodollars / PICO)

    def ended(self, kind: str, outcome: str) -> None:
        """A wake-up was answered."""
        self._jobs.labels(kind or "none", outcome).inc()

    def measured(self, reading: Reading) -> None:
        """How things stand now."""
        self._oldest.set(reading.oldest_due_s)
        self._queue.labels("queued").set(reading.queued)
        self._queue.labels("leased").set(reading.leased)
        for where, count in reading.waiting.items():
            self._waiting.labels(where).set(count)
        for loop, failures in reading.loop_failures.items():
            self._loops.labels(loop).set(failures)

    def breaker(self, account: str, is_open: bool) -> None:
        """Calls of a provider account are held back, or go out again."""
        self._breakers.labels(account).set(int(is_open))


MOST_TURNS = 10_000
"""An agent that says that more turns than this went without is not believed."""
_MODES = frozenset({"adapter_error", "no_valid_boundary", "budget_exhausted_forced", "validation_failed"})


def _known_mode(mode: object) -> str:
    """Agents choose no label values: each makes a series that lives as long as the process."""
    return mode if isinstance(mode, str) and mode in _MODES else "other"
