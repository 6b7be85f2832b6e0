"""One session played on a thread, for whoever wants to look on while it happens."""

import threading
from collections.abc import Callable

from foldahead_worker.importers import ImportedSession
from foldahead_worker.playing.player import Player
from foldahead_worker.playing.plays import Progress, SessionPlayed, Task
from foldahead_worker.playing.taking import Taken


class Seen:
    """One turn, as it is shown: tokens of its request with foldahead and without."""

    def __init__(self, progress: Progress, taken: Taken, before: Progress | None) -> None:
        self.number = taken.number
        self.sent = progress.tokens_sent - (before.tokens_sent if before else 0)
        self.without = progress.tokens_sent_without - (before.tokens_sent_without if before else 0)
        self.added_ms = taken.added_ms
        self.taken = taken


class LivePlay:
    """Plays on a thread of its own; `seen` grows turn by turn."""

    def __init__(self, task: Task, recording: ImportedSession) -> None:
        self.task = task
        self.seen: list[Seen] = []
        self.result: SessionPlayed | None = None
        self.error: Exception | None = None
        self._before: Progress | None = None
        self._player = Player(task, recording, self._on_turn)
        self._thread = threading.Thread(target=self._run, name="demo player", daemon=True)

    @property
    def is_over(self) -> bool:
        """Whether all turns were played."""
        return self.result is not None

    def run(self, look: Callable[[], None], every_s: float) -> SessionPlayed:
        """Play to the end, calling `look` every so often on this thread. Raises what the player raises."""
        self._thread.start()
        while self._thread.is_alive():
            look()
            self._thread.join(every_s)
        look()
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    def _run(self) -> None:
        try:
            self.result = self._player.play()
        except Exception as error:  # noqa: BLE001 - raised again on the thread that waits
            self.error = error

    def _on_turn(self, progress: Progress, taken: Taken) -> None:
        self.seen.append(Seen(progress, taken, self._before))
        self._before = progress
