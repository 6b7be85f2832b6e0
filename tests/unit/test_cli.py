"""The pure parts of the command line and of the player."""

import json
import subprocess
import sys
from typing import Any

import pytest

from foldahead_worker.cli.faults import BadInput, one_line
from foldahead_worker.cli.figures import ago, share, short
from foldahead_worker.cli.policies import value_of, values_from
from foldahead_worker.importers import ImportedSession
from foldahead_worker.json_out import json_text
from foldahead_worker.playing.taking import Taken
from foldahead_worker.playing.tally import Tally, percentile
from foldahead_worker.playing.turns import turns_of


def recorded(*roles: str, usages: tuple[tuple[int, dict[str, Any]], ...] = ()) -> ImportedSession:
    messages = [{"role": role, "content": "x"} for role in roles]
    return ImportedSession(name="s", dialect="anthropic", messages=messages, usages=usages)


def taken(number: int, **more: Any) -> Taken:
    fields: dict[str, Any] = {
        "outcome": "unchanged",
        "reason": "below_threshold",
        "kind": "",
        "added_ms": 1.0,
        "tokens_before": 10,
        "tokens_after": 10,
        "due": False,
        "has_ready": False,
        "exhausted": False,
    }
    return Taken(number=number, **(fields | more))


def swap(number: int, **more: Any) -> Taken:
    return taken(number, **({"outcome": "swapped", "reason": "", "kind": "text", "due": True} | more))


def test_a_turn_is_a_run_of_assistant_messages_with_something_before_it() -> None:
    turns = turns_of(recorded("user", "assistant", "assistant", "user", "assistant"))
    assert [(turn.number, turn.sent, turn.answered, turn.done) for turn in turns] == [(1, 1, 3, 4), (2, 4, 5, 5)]


def test_a_recording_that_opens_with_an_assistant_has_no_request_for_it() -> None:
    assert [turn.sent for turn in turns_of(recorded("assistant", "user", "assistant"))] == [2]


def test_the_usage_of_a_turn_is_that_of_its_last_answer() -> None:
    session = recorded("user", "assistant", "assistant", usages=((1, {"input_tokens": 1}), (2, {"input_tokens": 2})))
    assert turns_of(session)[0].usage == {"input_tokens": 2}


def test_a_swap_in_the_turn_that_first_needed_it_was_ready_before() -> None:
    tally = Tally()
    for turn in (taken(1), swap(2)):
        tally.take(turn)
    assert [one.ready_before_needed for one in tally.swaps] == [True]


def test_a_swap_after_a_turn_that_needed_it_in_vain_was_late() -> None:
    tally = Tally()
    for turn in (taken(1, due=True, reason="not_ready"), swap(2), swap(3)):
        tally.take(turn)
    assert [one.ready_before_needed for one in tally.swaps] == [False, True]


def test_a_swap_that_waited_with_its_summary_at_hand_was_not_late() -> None:
    tally = Tally()
    for turn in (taken(1, due=True, reason="open_thinking_turn", has_ready=True), swap(2)):
        tally.take(turn)
    assert tally.swaps[0].ready_before_needed


def test_a_swap_that_was_not_worth_its_cost_before_is_not_late() -> None:
    tally = Tally()
    for turn in (
        taken(1, due=True, reason="not_ready", declined="not worth it: 9 turns"),
        taken(2, due=True, reason="not_ready"),
        swap(3),
    ):
        tally.take(turn)
    assert tally.swaps[0].ready_before_needed


def test_rules_at_the_hard_cap_are_a_swap_and_a_degraded_turn() -> None:
    tally = Tally()
    tally.take(swap(1, reason="extract", kind="extract"))
    assert [(one.how, one.turn) for one in tally.degraded] == [("extract", 1)]
    assert not tally.swaps[0].ready_before_needed


def test_a_session_that_never_swapped_gives_each_reason_once_with_its_latest_numbers() -> None:
    tally = Tally()
    tally.take(taken(1, due=True, reason="not_ready", declined="span too small: 10 of at least 2000 tokens"))
    tally.take(taken(2, due=True, reason="not_ready", declined="span too small: 20 of at least 2000 tokens"))
    tally.take(taken(3, due=True, reason="open_thinking_turn", tokens_before=1000))
    tally.take(taken(4, due=True, reason="not_smaller", tokens_before=1000, least_tokens=900, target_tokens=700))
    assert tally.not_worth_it == (
        "span too small: 20 of at least 2000 tokens",
        "open_thinking_turn: at turn 3, with 1000 tokens pending",
        "not_smaller: 900 of 1000 tokens would stay with the summary at hand, target 700",
    )


def test_a_session_that_swapped_gives_no_reasons() -> None:
    tally = Tally()
    tally.take(taken(1, due=True, reason="open_call"))
    tally.take(swap(2))
    assert tally.not_worth_it == ()


def test_a_percentile_of_nothing_is_zero() -> None:
    assert (percentile([], 0.99), percentile([3.0, 1.0, 2.0], 0.5)) == (0.0, 2.0)


@pytest.mark.parametrize(
    ("text", "value"), [("7", 7), ("true", True), ("auto", "auto"), ('"7"', "7"), ("[0, 2]", [0, 2]), ("", "")]
)
def test_a_value_on_the_command_line_is_json_if_it_parses(text: str, value: object) -> None:
    assert value_of(text) == value


def test_of_a_name_set_twice_the_last_counts() -> None:
    assert values_from(["a=1", "a=2", "b=x=y"]) == {"a": 2, "b": "x=y"}


@pytest.mark.parametrize("setting", ["threshold_tokens", "=5", ""])
def test_a_setting_without_name_or_value_is_refused(setting: str) -> None:
    with pytest.raises(BadInput, match="expected name=value"):
        values_from([setting])


def test_numbers_that_json_has_not_become_some_that_it_has() -> None:
    value = {"a": float("nan"), "b": [float("inf"), float("-inf")], 'NaN": Infinity': "NaN, -Infinity"}
    back = json.loads(json_text(value))
    assert back == {"a": None, "b": [float("inf"), float("-inf")], 'NaN": Infinity': "NaN, -Infinity"}


def test_a_lone_surrogate_crosses_json() -> None:
    assert json.loads(json_text("\ud800")) == "\ud800"


def test_an_error_is_one_printable_line() -> None:
    assert one_line("a\n  b\x1b[31m\ud800") == "a b\\x1b[31m\\ud800"


def test_figures_are_short() -> None:
    assert [short(n) for n in (950, 12_340, 812_000, 4_560_000)] == ["950", "12.3k", "812k", "4.6M"]
    assert [share(1, 4), share(4, 4), share(0, 0)] == ["75%", "", ""]
    assert [ago(n) for n in (800, 12_000, 300_000, 10_800_000)] == ["800 ms", "12 s", "5 min", "3 h"]


def test_the_help_waits_for_no_library_that_only_servers_need() -> None:
    """Each of them takes a tenth of a second to a whole one to import."""
    slow = ("alembic", "anthropic", "celery", "kombu", "prometheus_client", "psycopg", "sqlalchemy", "structlog")
    script = f"import sys, foldahead_worker.cli.run; print([name for name in {slow} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
