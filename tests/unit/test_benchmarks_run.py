"""Every benchmark runs, in a configuration that takes moments and measures nothing, and writes its JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import long_session, publishes, request_latency, retention, summaries, turn_cost, watcher
from benchmarks.report import RESULTS

EVERY: dict[str, Any] = {
    "long_session": long_session,
    "publishes": publishes,
    "request_latency": request_latency,
    "retention": retention,
    "summaries": summaries,
    "turn_cost": turn_cost,
    "watcher": watcher,
}


@pytest.mark.parametrize("name", EVERY)
def test_a_benchmark_runs_and_says_where_and_with_what_it_was_measured(name: str, tmp_path: Path) -> None:
    EVERY[name].main(["--tiny", "--out", str(tmp_path)])

    written = json.loads((tmp_path / f"{name}.json").read_text("utf8"))
    assert written["rows"]
    assert written["machine"]["cores"]
    assert written["versions"]["foldahead"]
    assert written["date"].endswith("UTC")


def test_the_results_that_are_kept_name_no_machine_and_no_path_of_it() -> None:
    for path in RESULTS.glob("*.json"):
        written = path.read_text("utf8")
        assert "/home/" not in written
        assert "/tmp/" not in written
