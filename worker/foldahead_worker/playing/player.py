"""Plays one session: every turn of the recording, through the real client and the running stack."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import Ledger, ledger_of
from foldahead.core.tokens import estimate_text
from foldahead_worker.importers import ImportedSession
from foldahead_worker.json_out import json_text
from foldahead_worker.playing.clients import Agent, agent_for, member_of
from foldahead_worker.playing.frame import Frame, claude_frame, recorded_frame
from foldahead_worker.playing.judging import judged, recorded_faults
from foldahead_worker.playing.keeping import keep_request
from foldahead_worker.playing.plays import Progress, SessionPlayed, Task
from foldahead_worker.playing.settling import Settler
from foldahead_worker.playing.taking import Taken
from foldahead_worker.playing.tally import Tally
from foldahead_worker.playing.turns import Turn, turns_of

IMPATIENT_S = 2.0
LAST_SETTLE_S = 60.0
"""With a pace nothing waits; at its end a session waits so long, for the books alone."""

OnTurn = Callable[[Progress, Taken], None]


class Weigher:
    """Tokens of what is sent, with foldahead and without: estimates of messages, system and tools."""

    def __init__(self, frame: Frame) -> None:
        self._dialect = get_dialect(frame.dialect)
        self._ledger = Ledger(self._dialect)
        outside = [part for name in ("system", "tools") if (part := frame.arguments.get(name))]
        self._outside = sum(estimate_text(json_text(part)) for part in outside)
        self.sent = 0
        self.without = 0

    def weigh(self, history: Sequence[Any], sent: list[Any] | None) -> None:
        """Add one request; `sent` is None where the history itself was sent."""
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
        self._frame = _frame_of(task, recording)
        self._turns = turns_of(recording)
        self._arriving = [json_text(message) for message in recording.messages]
        self._history: list[Any] = []
        self._tally = Tally()
        self._weigher = Weigher(self._frame)
        self._notes: list[str] = []

    def play(self) -> SessionPlayed:
        """All turns. Raises what the rooms below raise."""
        agent = agent_for(self._task, self._recording, self._frame)
        settler = Settler(self._task.redis_url)
        try:
            self._play(agent, settler)
        finally:
            agent.close()
            settler.close()
        return self._result()

    def _play(self, agent: Agent, settler: Settler) -> None:
        turn_s = self._task.turn_s
        time.sleep(self._task.starts_after_s)
        began_s = time.monotonic()
        for turn in self._turns:
            # As agents have it: what came since the answer was made a moment before the request that tells of it.
            self._history += map(json.loads, self._arriving[len(self._history) : turn.sent])
            self._account(turn, agent.take(turn, self._history))
            if turn_s is None:
                # Who has waited in vain once does not do so at every turn.
                self._settle(agent, settler, IMPATIENT_S if self._notes else self._task.settle_timeout_s)
            else:
                time.sleep(max(0.0, began_s + turn.number * turn_s - time.monotonic()))
        if turn_s is not None:
            self._settle(agent, settler, LAST_SETTLE_S)

    def _settle(self, agent: Agent, settler: Settler, timeout_s: float) -> None:
        if not agent.flush():
            self._notes.append("Redis did not take a publish in time; the session went on without")
        elif not settler.settle(member_of(self._task), timeout_s):
            self._notes.append("a summary was not ready in time, or Redis was away; the session went on without")
        agent.hear()

    def _account(self, turn: Turn, taken: Taken) -> None:
        history = self._history[: turn.sent]
        self._tally.take(taken)
        sent = taken.sent or self._frame.around(history)
        self._weigher.weigh(history, sent["messages"] if taken.sent else None)
        if taken.requests:
            self._tally.fault(turn.number, list(taken.refused), list(taken.recorded_faults))
        elif taken.sent is not None:
            self._tally.fault(turn.number, *judged(self._frame, sent, history))
        elif turn is self._turns[-1]:
            self._tally.fault(turn.number, [], [str(fault) for fault in recorded_faults(self._frame, history)])
        if self._task.out:
            task = self._task
            keep_request(Path(task.out), task.label, self._frame.dialect, self._recording.name, turn.number, sent)
        self._on_turn(self._progress(turn), taken)

    def _progress(self, turn: Turn) -> Progress:
        return Progress(
            label=self._task.label,
            turn=turn.number,
            turns=len(self._turns),
            swaps=len(self._tally.swaps),
            tokens_sent=self._weigher.sent,
            tokens_sent_without=self._weigher.without,
        )

    def _result(self) -> SessionPlayed:
        tally = self._tally
        recorded = [f"in the recording: {fault}" for fault in tally.recorded_faults]
        return SessionPlayed(
            session=self._recording.name,
            file=self._task.file,
            label=self._task.label,
            name=self._task.name,
            messages=len(self._recording.messages),
            turns=len(self._turns),
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
            requests=tally.requests,
            refused=tally.refused,
            recording_faults=tuple(tally.recorded_faults),
        )


def _frame_of(task: Task, recording: ImportedSession) -> Frame:
    if task.standin_url and recording.dialect == "anthropic":
        return claude_frame(recording, task.agent_model)
    return recorded_frame(recording)
