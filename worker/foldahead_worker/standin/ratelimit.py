"""The rate-limit headers of a response. They inform; only a script makes the stand-in refuse for rate."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

REQUESTS_PER_MINUTE: Final = 4_000
INPUT_TOKENS_PER_MINUTE: Final = 4_000_000
OUTPUT_TOKENS_PER_MINUTE: Final = 800_000
_WINDOW_S: Final = 60.0


class RateWindow:
    """What was used in the minute that runs."""

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._clock, self._wall = clock, wall
        self._lock = threading.Lock()
        self._until = 0.0
        self._used = {"requests": 0, "input-tokens": 0, "output-tokens": 0}

    def headers(self, input_tokens: int, output_tokens: int) -> dict[str, str]:
        """Counts one call and gives the headers that go with its response."""
        limits = {
            "requests": REQUESTS_PER_MINUTE,
            "input-tokens": INPUT_TOKENS_PER_MINUTE,
            "output-tokens": OUTPUT_TOKENS_PER_MINUTE,
        }
        with self._lock:
            now = self._clock()
            if now >= self._until:
                self._until = now + _WINDOW_S
                self._used = dict.fromkeys(self._used, 0)
            self._used["requests"] += 1
            self._used["input-tokens"] += input_tokens
            self._used["output-tokens"] += output_tokens
            used, left_s = dict(self._used), self._until - now
        reset = datetime.fromtimestamp(self._wall() + left_s, UTC).isoformat(timespec="seconds")
        headers: dict[str, str] = {}
        for name, limit in limits.items():
            headers[f"anthropic-ratelimit-{name}-limit"] = str(limit)
            headers[f"anthropic-ratelimit-{name}-remaining"] = str(max(0, limit - used[name]))
            headers[f"anthropic-ratelimit-{name}-reset"] = reset.replace("+00:00", "Z")
        return headers
