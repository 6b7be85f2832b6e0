"""Every benchmark without servers runs, in a configuration that takes moments, and writes its JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import long_session, retention, three_chunks, turn_cost
from benchmarks.quote import PAGE, quoted
from benchmarks.report import RESULTS

ALONE: dict[str, Any] = {
    "long_session": long_session,
    "retention": retention,
    "three_chunks": three_chunks,
    "turn_cost": turn_cost,
}


@pytest.mark.parametrize("name", ALONE)
def test_a_benchmark_runs_and_says_where_and_with_what_it_was_measured(name: str, tmp_path: Path) -> None:
    ALONE[name].main(["--tiny", "--out", str(tmp_path)])

    written = json.loads((tmp_path / f"{name}.json").read_text("utf8"))
    assert written["rows"]
    assert written["machine"]["cores"]
    assert written["versions"]["foldahead"]
    assert written["date"].endswith("UTC")


def test_the_results_that_are_kept_name_no_folder_of_the_machine() -> None:
    for path in RESULTS.glob("*.json"):
        written = path.read_text("utf8")
        assert "/home/" not in written
        assert "/tmp/" not in written


def test_the_page_quotes_the_results_as_they_are() -> None:
    page = PAGE.read_text("utf8")

    assert quoted(page, RESULTS) == page
