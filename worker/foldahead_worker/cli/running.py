"""Sessions side by side, each in a process of its own."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from foldahead_worker.playing.plays import Progress, SessionPlayed, Task
from foldahead_worker.playing.process import PlayerProcess


def play_side_by_side(
    tasks: Sequence[Task],
    jobs: int,
    on_progress: Callable[[Progress], None],
    on_done: Callable[[SessionPlayed], None],
) -> list[SessionPlayed]:
    """Play all, `jobs` at a time; results in the order of the tasks. Raises PlayFailed for the first that fails.

    The functions are called on threads of ours. However this ends, no process is left.
    """
    players = [PlayerProcess(task) for task in tasks]
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="player")

    def run(player: PlayerProcess) -> SessionPlayed:
        played = player.run(on_progress)
        on_done(played)
        return played

    try:
        futures = [pool.submit(run, player) for player in players]
        wait(futures, return_when=FIRST_EXCEPTION)
        failed = next((future for future in futures if future.done() and future.exception()), None)
        if failed is not None:
            failed.result()
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for player in players:
            player.stop()
        pool.shutdown(wait=True)
