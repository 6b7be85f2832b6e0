"""What summaries must still hold, measured on synthetic sessions: a small run of `benchmarks/retention.py`."""

import statistics

import pytest

from benchmarks.cases import synthetic_case
from benchmarks.planting import PLACES
from benchmarks.retention import WAYS, lossy_text, lossy_with_index, score
from foldahead.core.extract import extract
from foldahead.core.index import mechanical_index

CASES = [synthetic_case(seed, turns=40) for seed in range(3)]


def mean_of(way: str, share: float, name: str) -> float:
    return statistics.mean(score(case, WAYS[way], share)[name] for case in CASES)


@pytest.mark.parametrize("place", PLACES)
def test_extract_keeps_every_planted_constraint_at_a_quarter_of_the_span(place: str) -> None:
    assert [score(case, extract, 0.25)[place] for case in CASES] == [1.0] * len(CASES)


def test_of_two_contradicting_values_extract_shows_the_newest() -> None:
    assert mean_of("extract", 0.25, "newest") == 1.0


def test_an_index_of_five_percent_holds_every_name_that_is_needed_later() -> None:
    assert [score(case, mechanical_index, 0.05)["needed"] for case in CASES] == [1.0] * len(CASES)


def test_the_index_saves_names_that_a_lossy_summary_forgets() -> None:
    case = CASES[0]

    assert score(case, lossy_text, 0.10)["needed"] == 0.0
    assert score(case, lossy_with_index, 0.10)["needed"] == 1.0


def test_extract_keeps_what_the_user_said_word_for_word() -> None:
    assert mean_of("extract", 0.25, "said") == 1.0


def test_a_larger_budget_never_keeps_fewer_paths() -> None:
    kept = [mean_of("extract", share, "paths") for share in (0.02, 0.05, 0.10, 0.25)]

    assert kept == sorted(kept)


def test_a_swap_has_paid_for_itself_within_two_turns_at_full_price() -> None:
    long_case = synthetic_case(1, turns=90)

    assert score(long_case, lossy_with_index, 0.10)["even_full"] <= 2.0
