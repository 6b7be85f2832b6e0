"""From estimates to the provider's tokens: learned from differences, in bounded steps."""

from foldahead.core.calibration import calibrate, overhead_tokens
from foldahead.core.standing import Calibration

FRESH = Calibration()


def learned(*counts: tuple[int, int]) -> Calibration:
    known = FRESH
    for context, estimate in counts:
        known = calibrate(known, context, estimate)
    return known


def test_one_count_says_nothing_about_the_slope() -> None:
    assert learned((9_000, 2_000)).slope == 1.0


def test_the_slope_is_what_a_difference_was_billed_at() -> None:
    assert learned((9_000, 2_000), (10_300, 3_000)).slope == 1.3


def test_what_is_in_every_count_is_the_overhead() -> None:
    assert overhead_tokens(learned((9_000, 2_000), (10_300, 3_000))) == 6_400
    assert overhead_tokens(FRESH) == 0


def test_small_differences_add_up_before_they_count() -> None:
    assert learned((9_000, 2_000), (9_390, 2_300)).slope == 1.0
    assert learned((9_000, 2_000), (9_390, 2_300), (9_650, 2_500)).slope == 1.3


def test_steps_are_bounded() -> None:
    first = learned((9_000, 2_000), (12_000, 3_000))
    assert first.slope == 1.5
    second = calibrate(first, 15_000, 4_000)
    assert second.slope == 1.875


def test_a_request_after_a_swap_is_only_a_new_base() -> None:
    known = learned((9_000, 2_000), (10_300, 3_000), (8_000, 1_000))
    assert (known.slope, known.context_tokens, known.estimate_tokens) == (1.3, 8_000, 1_000)


def test_a_count_out_of_all_proportion_teaches_nothing() -> None:
    known = learned((20_000, 15_000), (170_085, 15_500))
    assert known.slope == 1.0


def test_a_count_smaller_than_its_messages_is_of_something_else() -> None:
    known = learned((20_000, 15_000), (20_700, 15_700))
    assert calibrate(known, 39, 15_800) == known


def test_after_odd_counts_it_goes_on_as_before() -> None:
    known = learned((20_000, 15_000), (21_000, 16_000), (170_085, 16_100), (39, 16_200), (21_500, 16_500))
    assert 0.9 <= calibrate(known, 22_600, 17_500).slope <= 1.1


def test_the_count_of_before_a_swap_arriving_again_changes_no_slope() -> None:
    known = learned((50_000, 40_000), (51_000, 41_000), (51_000, 8_000), (18_500, 8_400))
    assert known.slope == 1.0
