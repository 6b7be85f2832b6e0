"""Random histories in three chunks: a small run of `benchmarks/three_chunks.py`, and what its judge goes by."""

import pytest

from benchmarks.random_histories import random_history
from benchmarks.three_chunks import WAYS, Tally, faults_of, feed, in_thinking_turn

HISTORIES, WITH_ORPHANS = 40, 11


@pytest.mark.parametrize("way", WAYS)
def test_every_view_is_valid_compacted_where_due_and_complete(way: str) -> None:
    tally = Tally()
    for seed in range(HISTORIES):
        feed(random_history(seed, orphaned=seed < WITH_ORPHANS), tally, WAYS[way]())
    assert (tally.views, tally.orphaned) == (3 * HISTORIES, WITH_ORPHANS)
    assert (tally.invalid, tally.lost) == (0, 0), tally.faults
    assert tally.due > HISTORIES
    assert tally.compacted_share >= 0.9


def test_a_seed_is_a_history() -> None:
    assert random_history(7) == random_history(7)
    assert random_history(7) != random_history(10)


def test_histories_are_what_a_provider_takes_at_each_request() -> None:
    for seed in range(12):
        told = random_history(seed)
        for length in told.requests:
            assert faults_of(told.messages[:length], told.dialect) == []


def test_orphaned_histories_are_what_no_provider_takes() -> None:
    for seed in range(12):
        told = random_history(seed, orphaned=True)
        assert faults_of(told.messages, told.dialect)


def test_a_turn_with_thinking_is_open_while_its_results_are_to_be_answered() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    calling = {"role": "assistant", "content": [thought, {"type": "tool_use", "id": "1", "name": "t", "input": {}}]}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]}
    word = {"role": "user", "content": "go on"}
    assert in_thinking_turn([word, calling, answer])
    assert not in_thinking_turn([word, calling, answer, word])
    assert not in_thinking_turn([word])
