"""docs/operations.md names every variable that is read, every figure that is shown, and no other."""

import re
from pathlib import Path

from prometheus_client import generate_latest

from foldahead_worker.metrics import Metrics

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf8")
SETTINGS = (ROOT / "worker" / "foldahead_worker" / "settings.py").read_text("utf8")


def test_every_variable_that_is_read_is_on_the_page() -> None:
    read = set(re.findall(r'"((?:FOLDAHEAD|FLOWER|ANTHROPIC)_[A-Z_]+)"', SETTINGS)) - {"ANTHROPIC_API_KEY_FILE"}
    missing = {name for name in read if f"`{name}" not in PAGE and not name.endswith("_FILE")}
    assert missing == set()


def test_every_variable_of_ours_on_the_page_is_read() -> None:
    named = set(re.findall(r"\bFOLDAHEAD_[A-Z_]+\b", PAGE))
    assert {name for name in named if f'"{name}"' not in SETTINGS} == set()


def test_every_figure_is_on_the_page() -> None:
    shown = set(re.findall(r"^# TYPE (foldahead_\w+)", generate_latest(Metrics().registry).decode(), re.MULTILINE))
    shown = {name for name in shown if not name.endswith(("_created", "_info"))}
    assert {name for name in shown if name not in PAGE} == set()


def test_every_figure_on_the_page_is_shown() -> None:
    shown = generate_latest(Metrics().registry).decode()
    named = set(re.findall(r"\bfoldahead_[a-z_]+\b", PAGE))
    assert {name for name in named if name not in shown} == set()
