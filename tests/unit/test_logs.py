"""A log line is one line, names what it is about, and shows no secret."""

import json
import logging
import sys

from foldahead_worker.cli.logs import formatter

KEY = "sk-ant-api03-" + "A1b2C3d4" * 12


def record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("foldahead.watch", logging.INFO, __file__, 1, message, arguments, None)
    made.__dict__.update(extra)
    return made


def test_a_line_for_programs_is_json_with_its_ids() -> None:
    line = formatter(as_json=True).format(
        record("decided", workspace="acme", session="s", job=7, cache_key="0f7f73c46558")
    )
    said = json.loads(line)
    assert {name: said[name] for name in ("event", "level", "logger", "workspace", "session", "job", "cache_key")} == {
        "event": "decided",
        "level": "info",
        "logger": "foldahead.watch",
        "workspace": "acme",
        "session": "s",
        "job": 7,
        "cache_key": "0f7f73c46558",
    }


def test_a_line_for_people_is_one_line_with_its_ids() -> None:
    line = formatter(as_json=False).format(record("decided", workspace="acme", session="two\nlines", job=7))
    assert line.endswith("foldahead.watch: decided workspace=acme session=two lines job=7")


def test_a_fault_is_told_on_one_line() -> None:
    made = record("round failed")
    try:
        raise ValueError("a\nb")
    except ValueError:
        made.exc_info = sys.exc_info()
    for as_json in (True, False):
        line = formatter(as_json=as_json).format(made)
        assert "\n" not in line
        assert "ValueError" in line


def test_a_secret_of_a_known_format_is_taken_out_wherever_it_stands() -> None:
    made = record(f"refused: {KEY}", session=KEY)
    try:
        raise ValueError(f"bad key {KEY}")
    except ValueError:
        made.exc_info = sys.exc_info()
    for as_json in (True, False):
        assert KEY not in formatter(as_json=as_json).format(made)


def test_a_value_that_is_too_long_is_cut() -> None:
    assert len(formatter(as_json=True).format(record("x" * 100_000))) < 3_000
