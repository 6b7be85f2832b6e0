"""Plays one session: every turn of the recording, through the real client and the running stack."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from foldahead import Foldahead, Session
from foldahead.core.decide import Means
from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import Ledger, ledger_of
from foldahead.core.policy import Policy, policy_from
from foldahead.core.tokens import estimate_text
from foldahead_worker.cli.printing import json_text
from foldahead_worker.importers import ImportedSession
from foldahead_worker.means import Chooser, OneKey
from foldahead_worker.playing import fresh
from foldahead_worker.playing.judging import judged, recorded_faults
from foldahead_worker.playing.keeping import keep_request
from foldahead_worker.playing.plays import Progress, SessionPlayed, Task
from foldahead_worker.playing.settling import Settler
from foldahead_worker.playing.taking import Taken, declined, request_of, send, tell
from foldahead_worker.playing.tally import Tally
from foldahead_worker.playing.turns import Turn, turns_of

FLUSH_S = 5.0
LAST_SETTLE_S = 60.0
"""With a pace nothing waits; at its end a session waits so long, for the books alone."""

OnTurn = Callable[[Progress, Taken], None]


class Weigher:
    """Tokens of what is sent, with foldahead and without: estimates of messages, system and tools."""

    def __init__(self, recording: ImportedSession) -> None:
        self._dialect = get_dialect(recording.dialect)
        self._ledger = Ledger(self._dialect)
        outside = [part for part in (recording.system, recording.tools) if part]
        self._outside = sum(estimate_text(json_text(part)) for part in outside)
        self.sent = 0
        self.without = 0

    def weigh(self, history: list[Any], sent: list[Any] | None) -> None:
        """Add one request."""
        for message in history[len(self._ledger) :]:
            self._ledger.append(message)
        whole = self._ledger.tokens[-1] + self._outside
        self.without += whole
        self.sent += whole if sent is None else ledger_of(sent, self._dialect).tokens[-1] + self._outside


class Player:
    """Plays one task. `on_turn` hears of every turn."""

    def __init__(self, task: Task, recording: ImportedSession, on_turn: OnTurn) -> None:
        self._task = task
        self._recording = recording
        self._on_turn = on_turn
        self._policy = policy_from(task.policy)
        self._settler = Settler(task.redis_url)
        self._tally = Tally()
        self._weigher = Weigher(recording)
        self._notes: list[str] = []

    def play(self) -> SessionPlayed:
        """All turns. Raises what the rooms below raise; the turns so far are lost then."""
        turns = turns_of(self._recording)
        history: list[Any] = []
        client: _Client = (
            _FreshClient(self._task, self._recording)
            if self._task.fresh_process
            else _LivingClient(self._task, self._recording, self._policy)
        )
        try:
            self._play(client, turns, history)
        finally:
            client.close()
            self._settler.close()
        return self._result(len(turns))

    def _play(self, client: "_Client", turns: tuple[Turn, ...], history: list[Any]) -> None:
        messages = self._recording.messages
        began_s = time.monotonic()
        for turn in turns:
            history += messages[len(history) : turn.sent]
            taken = client.take(turn, history)
            history += messages[len(history) : turn.answered]
            if taken.due and not self._tally.swaps:
                taken = msgspec.structs.replace(taken, declined=client.declined())
            self._account(turn, taken, history[: turn.sent], last=turn is turns[-1])
            self._on_turn(self._progress(turn, len(turns)), taken)
            if self._task.turn_s is None:
                self._settle(client, history, self._task.settle_timeout_s)
            else:
                time.sleep(max(0.0, began_s + turn.number * self._task.turn_s - time.monotonic()))
        if self._task.turn_s is not None:
            self._settle(client, history, LAST_SETTLE_S)

    def _settle(self, client: "_Client", history: list[Any], timeout_s: float) -> None:
        if not client.flush(FLUSH_S):
            self._notes.append("Redis did not take a publish in time; the session went on without")
        elif not self._settler.settle(client.member, timeout_s):
            self._notes.append(f"a summary was not ready in {timeout_s:g} s; the session went on without")
        client.hear(history)

    def _account(self, turn: Turn, taken: Taken, history: list[Any], *, last: bool) -> None:
        self._tally.take(taken)
        sent = taken.sent or request_of(self._recording, history)
        self._weigher.weigh(history, sent["messages"] if taken.sent else None)
        if taken.sent is not None:
            self._tally.fault(turn.number, *judged(self._recording, sent, history))
        elif last:
            self._tally.fault(turn.number, [], [str(fault) for fault in recorded_faults(self._recording, history)])
        if self._task.out:
            keep_request(Path(self._task.out), self._task, self._recording.dialect, turn.number, sent)

    def _progress(self, turn: Turn, turns: int) -> Progress:
        return Progress(
            name=self._task.name,
            turn=turn.number,
            turns=turns,
            swaps=len(self._tally.swaps),
            tokens_sent=self._weigher.sent,
            tokens_sent_without=self._weigher.without,
        )

    def _result(self, turns: int) -> SessionPlayed:
        tally = self._tally
        recorded = [f"in the recording: {fault}" for fault in tally.recorded_faults]
        return SessionPlayed(
            session=self._recording.name,
            file=self._task.file,
            name=self._task.name,
            messages=len(self._recording.messages),
            turns=turns,
            swaps=tuple(tally.swaps),
            elided_turns=tally.elided_turns,
            tokens_sent=self._weigher.sent,
            tokens_sent_without=self._weigher.without,
            validity_faults=tuple(tally.validity_faults),
            degraded=tuple(tally.degraded),
            not_worth_it=tally.not_worth_it,
            exhausted_turns=tally.exhausted_turns,
            notes=(*dict.fromkeys(self._notes), *recorded),
            quiet_ms=tuple(tally.quiet_ms),
        )
