"""Every benchmark over real servers runs, in a configuration that takes moments, and writes its JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import publishes, request_latency, summaries, watcher

SERVED: dict[str, Any] = {
    "publishes": publishes,
    "request_latency": request_latency,
    "summaries": summaries,
    "watcher": watcher,
}


@pytest.mark.parametrize("name", SERVED)
def test_a_benchmark_over_servers_runs_and_writes_what_it_found(name: str, tmp_path: Path) -> None:
    SERVED[name].main(["--tiny", "--out", str(tmp_path)])

    written = json.loads((tmp_path / f"{name}.json").read_text("utf8"))
    assert written["rows"]
    assert written["targets"]
