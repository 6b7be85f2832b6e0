"""Policies are validated when they are made, and say what was wrong."""

from typing import Any

import pytest

from foldahead.core.policy import POLICY_FIELDS, Policy, policy_from
from foldahead.errors import InvalidPolicy


def test_the_defaults_are_the_seeds() -> None:
    policy = Policy()
    assert (policy.threshold_tokens, policy.hard_cap_tokens, policy.preserve_recent_turns) == (30_000, 80_000, 5)
    assert (policy.max_cost_per_session_usd, policy.cache_max_rows, policy.max_attempts) == (0.20, 1_000, 3)
    assert policy.target_tokens == 21_000


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"threshold_tokens": 0}, "threshold_tokens: expected a whole number from 1 to 2147483647, got 0"),
        ({"threshold_tokens": 80_000}, "threshold_tokens: expected less than hard_cap_tokens (80000), got 80000"),
        ({"threshold_tokens": "soon"}, "threshold_tokens: expected a whole number from 1 to 2147483647, got 'soon'"),
        ({"threshold_tokens": None}, "threshold_tokens: expected a whole number from 1 to 2147483647, got None"),
        ({"window_tokens": "auto"}, "window_tokens: expected a whole number from 1 to 2147483647, got 'auto'"),
        ({"window_tokens": 1.5}, "window_tokens: expected a whole number from 1 to 2147483647, got 1.5"),
        (
            {"preserve_recent_turns": -1},
            "preserve_recent_turns: expected a number of at least 0 and at most 2147483647, got -1",
        ),
        (
            {"preserve_recent_turns": True},
            "preserve_recent_turns: expected a number of at least 0 and at most 2147483647, got True",
        ),
        (
            {"summary_max_tokens": "many"},
            "summary_max_tokens: expected a number of at least 1 and at most 2147483647, got 'many'",
        ),
        (
            {"max_cost_per_session_usd": -0.1},
            "max_cost_per_session_usd: expected a number of at least 0 and at most 2147483647, got -0.1",
        ),
        ({"target_ratio": 0}, "target_ratio: expected a ratio over 0 and up to 1, got 0"),
        ({"start_ratio": 1.5}, "start_ratio: expected a ratio over 0 and up to 1, got 1.5"),
        ({"mode": "maybe"}, "mode: expected one of on, shadow, off, got 'maybe'"),
        ({"kind": "poem"}, "kind: expected one of text, native, got 'poem'"),
        ({"on_hard_cap": "panic"}, "on_hard_cap: expected one of extract, truncate, unchanged, got 'panic'"),
        ({"tail_thinking": "hide"}, "tail_thinking: expected one of auto, strip, drop_block, keep, got 'hide'"),
        ({"resummarise": 1}, "resummarise: expected true or false, got 1"),
        ({"model": "haiku"}, "model: expected \"provider:model\", got 'haiku'"),
        ({"model": 5}, "model: expected a text, got 5"),
        ({"pinned": (-1,)}, "pinned: expected indices of messages, 0 or more, or a function, got (-1,)"),
        ({"pinned": "first"}, "pinned: expected indices of messages or a function, got 'first'"),
        ({"treshold_tokens": 5}, "treshold_tokens: no such policy field; there are mode, threshold_tokens"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        policy_from(values)
    assert str(refused.value).startswith(said)


def test_auto_starts_from_the_defaults_proportion_of_the_hard_cap() -> None:
    assert Policy(threshold_tokens="auto").threshold == 30_000


def test_values_of_a_command_line_make_a_policy() -> None:
    policy = policy_from({"pinned": [0, 2], "threshold_tokens": 200, "age_observations": True})
    assert (policy.pinned_indices(), policy.threshold, policy.age_observations) == ((0, 2), 200, True)


def test_a_function_may_choose_the_pins_and_stays_with_the_agent() -> None:
    policy = Policy(pinned=lambda message: message["role"] == "user")
    assert policy.pinned_indices() == ()
    predicate = policy.predicate()
    assert predicate is not None
    assert predicate({"role": "user"})


def test_every_field_is_known_by_name() -> None:
    assert len(POLICY_FIELDS) == len(set(POLICY_FIELDS)) >= 25
