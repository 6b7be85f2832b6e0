"""What README.md shows is run as it stands there."""

import re
from pathlib import Path
from typing import Any

import anthropic
import pytest

from foldahead_worker.standin import RunningStandIn

pytest_plugins = ["tests.standin_fixtures"]

README = Path(__file__).parents[2] / "README.md"


def first_python_block() -> str:
    found = re.search(r"```python\n(.*?)```", README.read_text("utf8"), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_first_code_block_is_at_most_a_dozen_lines() -> None:
    assert len([line for line in first_python_block().splitlines() if line.strip()]) <= 12


def test_the_first_code_block_runs_against_the_api_with_redis_away(
    standin: RunningStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", standin.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    tools = [{"name": "read_file", "description": "reads", "input_schema": {"type": "object"}}]
    given: dict[str, Any] = {"MODEL": "claude-haiku-5-5", "SYSTEM": "Be brief.", "TOOLS": tools}

    exec(compile(first_python_block(), str(README), "exec"), given)

    assert isinstance(given["client"], anthropic.Anthropic)
    assert given["history"][1]["role"] == "assistant"
    given["fold"].close(timeout=0.1)
    given["client"].close()
