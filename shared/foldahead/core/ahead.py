"""Looking into messages ahead of time, so that `extract` is at hand the moment the hard cap is reached."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from foldahead.core.dialect import Dialect
from foldahead.core.extract import Extractor


class Foresight:
    """The extractor of one history. May be advanced on another thread when `guard` is a lock.

    `messages` is the list that its conversation appends to; a history that starts over gets a new foresight.
    """

    def __init__(self, dialect: Dialect, messages: list[Any], guard: AbstractContextManager[Any] | None = None) -> None:
        self._dialect = dialect
        self._messages = messages
        self._guard = guard or nullcontext()
        self._extractor = Extractor()

    def lacks(self, end: int) -> bool:
        """Whether some of the first `end` messages were not looked into yet."""
        return len(self._extractor) < min(end, len(self._messages))

    def advance(self, end: int) -> None:
        """Look into one more message, if any of the first `end` is left."""
        with self._guard:
            self._advance(end)

    def text(self, end: int, budget_tokens: int) -> str:
        """The summary by rules of the first `end` messages, within about `budget_tokens`."""
        with self._guard:
            while self.lacks(end):
                self._advance(end)
            return self._extractor.text(end, budget_tokens)

    def _advance(self, end: int) -> None:
        if self.lacks(end):
            index = len(self._extractor)
            self._extractor.add(self._dialect.read(self._messages[index], index))
