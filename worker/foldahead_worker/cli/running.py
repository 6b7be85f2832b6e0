"""Sessions side by side, each in a process of its own."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

from foldahead_worker.playing.plays import Progress, SessionPlayed, Task
from foldahead_worker.playing.process import PlayerProcess

CHECK_EVERY_S = 1.0


def play_side_by_side(
    tasks: Sequence[Task],
    jobs: int,
    on_progress: Callable[[Progress], None],
    on_done: Callable[[SessionPlayed], None],
    check: Callable[[], None],
) -> list[SessionPlayed]:
    """Play all, `jobs` at a time; results in the order of the tasks. Raises PlayFailed for the first that fails.

    `on_progress` and `on_done` are called on threads of ours; `check` on this one, every second, and may raise.
    However this ends, no process is left.
    """
    players = [PlayerProcess(task) for task in tasks]
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="player")

    def run(player: PlayerProcess) -> SessionPlayed:
        played = player.run(on_progress)
        on_done(played)
        return played

    try:
        futures = [pool.submit(run, player) for player in players]
        while wait(futures, CHECK_EVERY_S, FIRST_EXCEPTION).not_done and not any(map(_has_failed, futures)):
            check()
        for future in filter(_has_failed, futures):
            future.result()
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for player in players:
            player.stop()
        pool.shutdown(wait=True)


def _has_failed(future: Future[SessionPlayed]) -> bool:
    return future.done() and future.exception() is not None
