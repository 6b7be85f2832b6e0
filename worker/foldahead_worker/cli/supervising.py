"""Looking after the processes of `foldahead up`: what ends is started again, each time a little later."""

import time
from collections.abc import Callable
from pathlib import Path

from foldahead_worker.cli.faults import one_line
from foldahead_worker.cli.reaching import shown_url
from foldahead_worker.embedded.redis_server import EmbeddedRedis, EmbeddedRedisError
from foldahead_worker.settings import Settings
from foldahead_worker.stack import KINDS, Child, Stack, StackError

LOOK_EVERY_S = 0.2
FIRST_PAUSE_S = 1.0
MOST_PAUSE_S = 30.0
STEADY_AFTER_S = 60.0
"""A process that ran for so long starts again at once when it ends."""

Say = Callable[[str], None]


class Keeper:
    """Starts one child again whenever it has ended."""

    def __init__(self, child: Child, say: Say) -> None:
        self._child = child
        self._say = say
        self._pause_s = FIRST_PAUSE_S
        self._began_s = time.monotonic()
        self._start_at_s: float | None = None

    def look(self, now_s: float) -> None:
        """One look: note an end, start again when its time has come."""
        if self._start_at_s is None:
            if (status := self._child.ended()) is not None:
                self._note_end(status, now_s)
        elif now_s >= self._start_at_s:
            self._start(now_s)

    def _note_end(self, status: int, now_s: float) -> None:
        if now_s - self._began_s > STEADY_AFTER_S:
            self._pause_s = FIRST_PAUSE_S
        self._start_at_s = now_s + self._pause_s
        self._child.stop()
        how = f"was killed (signal {-status})" if status < 0 else f"ended with status {status}"
        self._say(f"{self._child.kind} {how}, starts again in {self._pause_s:g} s; log: {self._child.log}")
        self._pause_s = min(MOST_PAUSE_S, self._pause_s * 2)

    def _start(self, now_s: float) -> None:
        self._began_s, self._start_at_s = now_s, None
        self._child.start()
        try:
            self._child.wait_ready()
        except StackError:
            return  # its end is noted at the next look
        self._say(f"{self._child.kind} runs again (process {self._child.pid})")


class RedisKeeper:
    """Starts the embedded Redis again, with its data and on its port, whenever it has ended."""

    def __init__(self, server: EmbeddedRedis, say: Say) -> None:
        self._server = server
        self._say = say
        self._pause_s = FIRST_PAUSE_S
        self._start_at_s: float | None = None

    def look(self, now_s: float) -> None:
        """One look."""
        if self._start_at_s is None:
            if not self._server.is_running:
                self._start_at_s = now_s + self._pause_s
                self._say(f"redis ended, starts again in {self._pause_s:g} s")
        elif now_s >= self._start_at_s:
            self._start(now_s)

    def _start(self, now_s: float) -> None:
        self._server.kill()
        try:
            self._server.start()
        except EmbeddedRedisError as error:
            self._pause_s = min(MOST_PAUSE_S, self._pause_s * 2)
            self._start_at_s = now_s + self._pause_s
            self._say(f"redis did not start, is tried again in {self._pause_s:g} s: {one_line(str(error))}")
            return
        self._pause_s, self._start_at_s = FIRST_PAUSE_S, None
        self._say(f"redis runs again (process {self._server.pid})")


def supervise(settings: Settings, server: EmbeddedRedis | None, logs: Path, say: Say, flower: str = "") -> None:
    """Start watcher, worker and Flower, say that all is ready, and look after them until this is interrupted.

    `server` is the embedded Redis, where there is one. `flower` says where it is and how one comes in; empty: none is
    started. Raises StackError when they do not come up the first time.
    """
    with Stack(settings, logs, (*KINDS, "flower") if flower else KINDS) as stack:
        say(f"redis     {shown_url(settings.redis_url)}")
        say(f"database  {shown_url(settings.database_url)}")
        say(f"logs      {', '.join(str(child.log) for child in stack.children)}")
        rules = settings.summarizer == "extract" or not settings.anthropic_api_key
        say(f"summaries {'by rules (no key is configured)' if rules else 'by the model that a policy names'}")
        if flower:
            say(f"flower    {flower}")
        say("ready     agents connect with Foldahead(" + repr(shown_url(settings.redis_url)) + "); Ctrl-C stops all")
        keepers: list[Keeper | RedisKeeper] = [Keeper(child, say) for child in stack.children]
        if server is not None:
            keepers.insert(0, RedisKeeper(server, say))
        while True:
            for keeper in keepers:
                keeper.look(time.monotonic())
            time.sleep(LOOK_EVERY_S)
