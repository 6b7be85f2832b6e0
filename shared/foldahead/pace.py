"""The pace of one session on this process's monotonic clock: when it last published, and how much."""

import time

from foldahead.core.growth import Growth


class Pace:
    """Never compares clocks of two hosts: another process's last publish comes as an age."""

    def __init__(self) -> None:
        self._published_s: float | None = None
        self._total_tokens: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether this session was published here, or its past was taken over."""
        return self._published_s is not None

    def note_publish(self, total_tokens: int, growth: Growth) -> None:
        """A turn is over, with so many tokens in all."""
        now_s = time.monotonic()
        if self._total_tokens is not None:
            interval_s = now_s - self._published_s if self._published_s is not None else None
            growth.note(total_tokens - self._total_tokens, interval_s)
        self._published_s, self._total_tokens = now_s, total_tokens

    def take_over(self, total_tokens: int, idle_s: float) -> None:
        """Go on from another process's last publish, `idle_s` seconds ago."""
        self._total_tokens = total_tokens
        self._published_s = time.monotonic() - idle_s
