"""How fast a session grows: tokens a turn and seconds a turn, robust to one huge result or one long pause."""

from collections import deque
from statistics import median

_REMEMBERED = 9


class Growth:
    """Remembers the last turns; gives the median of what a turn added and of the time between two."""

    def __init__(self) -> None:
        self._tokens: deque[int] = deque(maxlen=_REMEMBERED)
        self._intervals_s: deque[float] = deque(maxlen=_REMEMBERED)

    def note(self, gained_tokens: int, interval_s: float | None) -> None:
        """One more turn. None: no turn before it in this process."""
        if gained_tokens > 0:
            self._tokens.append(gained_tokens)
        if interval_s is not None and interval_s > 0:
            self._intervals_s.append(interval_s)

    @property
    def tokens_per_turn(self) -> float:
        """Median growth. 0 when nothing is known."""
        return float(median(self._tokens)) if self._tokens else 0.0

    @property
    def interval_s(self) -> float:
        """Median time between turns; 0 when nothing is known."""
        return float(median(self._intervals_s)) if self._intervals_s else 0.0
