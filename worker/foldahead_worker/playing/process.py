"""One session in a process of its own, as agents are: no session's work is in another's timing.

Parent to child: one task, JSON, on standard input, which then stays open; the child ends when it closes. Child to
parent: lines of JSON, `Progress` after each turn, then `SessionPlayed` or `PlayFault`.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

import msgspec

from foldahead.errors import FoldaheadError
from foldahead_worker.importers import UnreadableFile, load, pick
from foldahead_worker.json_out import json_text
from foldahead_worker.playing.player import Player
from foldahead_worker.playing.plays import PlayFault, Progress, Said, SessionPlayed, Task

OnProgress = Callable[[Progress], None]


class PlayFailed(FoldaheadError):
    """A session could not be played; the text is one line."""


class PlayerProcess:
    """The parent's side."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def run(self, on_progress: OnProgress) -> SessionPlayed:
        """Play to the end. Raises PlayFailed."""
        command = [sys.executable, "-m", "foldahead_worker.playing.process"]
        # A file, not a pipe: nobody reads it while the child plays.
        with tempfile.TemporaryFile() as words:
            self._process = process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words, start_new_session=True
            )
            try:
                if self._stopped:  # by somebody who could not see this process yet
                    raise PlayFailed(f"{self._task.file}, session {self._task.session}: was stopped")
                pipe = cast("IO[bytes]", process.stdin)
                pipe.write(json_text(msgspec.to_builtins(self._task)).encode() + b"\n")
                pipe.flush()
                return self._hear(process, on_progress, words)
            finally:
                self.stop()

    def stop(self) -> None:
        """End it, or have it end as it starts; harmless when it has ended. From any thread."""
        self._stopped = True
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
        process.wait()
        for opened in (process.stdin, process.stdout):
            if opened is not None:
                opened.close()

    def _hear(self, process: subprocess.Popen[bytes], on_progress: OnProgress, words: IO[bytes]) -> SessionPlayed:
        for line in cast("IO[bytes]", process.stdout):
            said: Said = msgspec.convert(json.loads(line), Said)
            match said:
                case Progress() as progress:
                    on_progress(progress)
                case SessionPlayed() as played:
                    return played
                case PlayFault() as fault:
                    raise PlayFailed(f"{self._task.file}, session {self._task.session}: {fault.text}")
        status = process.wait()
        words.seek(0)
        lines = words.read().decode("utf8", "replace").strip().splitlines()
        how = f"said: {lines[-1]}" if lines else f"ended with status {status}"
        raise PlayFailed(f"{self._task.file}, session {self._task.session}: its player {how}")


def play_task(task: Task, on_progress: OnProgress) -> SessionPlayed | PlayFault:
    """The child's side: play, or say why not."""
    try:
        recording = pick(load(Path(task.file), task.format), task.session)
        return Player(task, recording, lambda progress, _taken: on_progress(progress)).play()
    except (FoldaheadError, UnreadableFile, OSError) as error:
        return PlayFault(status=1, text=f"{type(error).__name__}: {error}")


def _say(said: Said) -> None:
    sys.stdout.write(json_text(msgspec.to_builtins(said)) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    def wait() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def main() -> None:
    """Read a task and play it."""
    line = b""
    while not line.endswith(b"\n") and (piece := os.read(0, 65_536)):
        line += piece
    task = msgspec.convert(json.loads(line), Task)
    _end_with_parent()
    _say(play_task(task, _say))


if __name__ == "__main__":
    main()
