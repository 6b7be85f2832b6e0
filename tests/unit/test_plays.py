"""Sessions that are played side by side."""

from typing import Any

import msgspec
import pytest

from foldahead_worker.playing.plays import Task, spread
from foldahead_worker.playing.process import PlayerProcess, PlayFailed

TASK = Task(
    file="f", format="auto", session="s", label="s", name="s@1", workspace="w", redis_url="redis://localhost", policy={}
)


@pytest.mark.parametrize(
    ("pace", "jobs", "starts"),
    [
        ({"turn_s": 2.0}, 40, [0.0, 0.5, 1.0, 1.5]),
        ({"turn_s": 2.0}, 2, [0.0, 1.0, 0.0, 1.0]),
        ({"turn_s": 0.0}, 4, [0.0] * 4),
        ({}, 4, [0.0] * 4),
    ],
    ids=["all at once", "two at a time", "a pace of nothing", "as they come"],
)
def test_sessions_at_a_pace_have_their_turns_one_after_the_other(
    pace: dict[str, Any], jobs: int, starts: list[float]
) -> None:
    tasks = spread([msgspec.structs.replace(TASK, **pace)] * 4, jobs)
    assert [task.starts_after_s for task in tasks] == starts


def test_a_player_that_is_stopped_while_it_starts_does_not_play() -> None:
    player = PlayerProcess(TASK)
    player.stop()
    with pytest.raises(PlayFailed, match="was stopped"):
        player.run(lambda _progress: None)
