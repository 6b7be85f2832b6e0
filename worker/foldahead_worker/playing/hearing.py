"""What the servers said of the sessions of a run: summaries made, taken from the cache, failed."""

import json
import time
from collections import Counter
from typing import Any

import redis
from msgspec import Struct

from foldahead import keys

_A_READ = 500
_EVERY_S = 0.02


class Heard(Struct, frozen=True, kw_only=True):
    """The servers' side of one session."""

    paid: int = 0
    """Summaries that were made because this session asked first."""
    reused: int = 0
    """Summaries that were there already."""
    cost_usd: float = 0.0
    failed: tuple[str, ...] = ()
    """Why a summary was not made: mode and class."""


class Hearing:
    """Reads the live stream of events from the moment that it was made."""

    def __init__(self, url: str, workspace: str) -> None:
        self._client: Any = redis.Redis.from_url(url)  # pyright: ignore[reportUnknownMemberType]
        self._workspace = workspace
        newest = self._client.xrevrange(keys.EVENTS_STREAM, count=1)
        self._last: bytes | str = newest[0][0] if newest else "0-0"
        self._paid: Counter[str] = Counter()
        self._reused: Counter[str] = Counter()
        self._cost_usd: Counter[str] = Counter()
        self._failed: dict[str, list[str]] = {}
        self._started = 0

    def listen(self) -> None:
        """Take in what was said since the last time."""
        while entries := self._client.xrange(keys.EVENTS_STREAM, min=b"(" + _bytes(self._last), count=_A_READ):
            for entry_id, fields in entries:
                self._last = entry_id
                self._take(json.loads(fields[b"event"]))

    def listen_to_the_end(self, timeout_s: float) -> None:
        """Listen until every summary that was begun has ended, for so long at most."""
        until_s = time.monotonic() + timeout_s
        self.listen()
        while time.monotonic() < until_s and self._open() > 0:
            time.sleep(_EVERY_S)
            self.listen()

    def _open(self) -> int:
        ended = self._paid.total() + sum(map(len, self._failed.values()))
        return self._started - ended

    def heard(self, session: str) -> Heard:
        """What was said of a session."""
        return Heard(
            paid=self._paid[session],
            reused=self._reused[session],
            cost_usd=self._cost_usd[session],
            failed=_counted(self._failed.get(session, [])),
        )

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()

    def _take(self, event: dict[str, Any]) -> None:
        if event.get("workspace") != self._workspace:
            return
        payload = event["payload"]
        session = payload["session_id"]
        match event["type"]:
            case "session.compaction_started":
                self._started += 1
            case "session.compaction_completed" if payload["cache_hit"]:
                self._reused[session] += 1
            case "session.compaction_completed":
                self._paid[session] += 1
                self._cost_usd[session] += payload["cost_usd"]
            case "session.compaction_failed":
                parts = (payload["failure_mode"], payload.get("error_class"), payload.get("error_message"))
                self._failed.setdefault(session, []).append(": ".join(part for part in parts if part))
            case _:
                pass


def _counted(reasons: list[str]) -> tuple[str, ...]:
    """Each reason once, with how often it was given."""
    return tuple(f"{reason} ({times} times)" if times > 1 else reason for reason, times in Counter(reasons).items())


def _bytes(entry_id: bytes | str) -> bytes:
    return entry_id if isinstance(entry_id, bytes) else entry_id.encode()
