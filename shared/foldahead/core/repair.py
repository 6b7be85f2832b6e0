"""Mending what came in broken: in the view, with the least change, always by a record.

Results that stand behind something else are moved to their call; system messages behind the user's of their turn, as
one, where the provider wants them there. Results without a call, calls that the conversation has gone past, thinking
that a turn ends in, empty blocks and empty messages are taken out. What is ill-formed is put in form, ids that the
provider refuses are written otherwise. One id used twice is left alone, and reported. A fault inside a span that a
summary stands for needs no mending.
"""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from itertools import zip_longest
from typing import Any

from foldahead.core.dialect import Dialect, as_plain, role_of
from foldahead.core.ledger import Ledger
from foldahead.core.messages import SYSTEM_ROLES, Thinking
from foldahead.core.models import find_model
from foldahead.core.pairing import Fault, FaultKind
from foldahead.core.record import Record, record_of
from foldahead.core.view import ACKNOWLEDGEMENT, CONTINUATION, Active

_LEFT_ALONE = ("repeated_id",)
_OF_A_TURN = ("system_apart", "thinking_last", "ill_formed", "foreign_id")
"""Faults that are mended where all of the turn is known, not by taking out the block."""


def repairs(history: list[Any], ledger: Ledger, active: Active, now_ms: int, model: str = "") -> list[Record]:
    """Records for the faulty turns behind the watermark that are not mended yet. `model`: the agent's, if known."""
    if not ledger.faults:
        return []
    faulty: defaultdict[int, list[Fault]] = defaultdict(list)
    since, keeps_ids = _mended_from(active), _keeps_ids(model)
    for fault in ledger.faults:
        if fault.index >= since and not _left_alone(fault, ledger, keeps_ids):
            faulty[ledger.turn_start_at(fault.index)].append(fault)
    latest = {record.start: record for record in active.edits if record.kind == "repaired"}
    made: list[Record] = []
    for turn_start, faults in sorted(faulty.items()):
        turn = _Turn(
            history, ledger, active, range(max(turn_start, active.end), ledger.turn_end_at(turn_start)), latest
        )
        if not turn.is_done(faults):
            mends = turn.mended(faults, now_ms)
            latest |= {record.start: record for record in mends}
            made += mends
    return made


def may_mend(ledger: Ledger, active: Active) -> bool:
    """Whether any fault stands where faults are mended."""
    since = _mended_from(active)
    return any(fault.index >= since for fault in reversed(ledger.faults))


def _mended_from(active: Active) -> int:
    """Index from which on faults are mended: not in a span that a summary stands for, nor where a view was refused."""
    return max(active.end, active.withdrawn)


def _keeps_ids(model: str) -> bool:
    """Whether ids stay as they are: another maker's model behind this API takes its own, and some read them."""
    return bool(model) and "claude" not in model.lower() and find_model(model) is None


def _left_alone(fault: Fault, ledger: Ledger, keeps_ids: bool) -> bool:
    """An empty message of the assistant's at the very end was begun: providers take it, and the caller fills it."""
    if fault.kind == "foreign_id" and keeps_ids:
        return True
    begun = fault.kind == "empty_message" and fault.index == len(ledger) - 1
    return fault.kind in _LEFT_ALONE or (begun and ledger.traits[fault.index].role == "assistant")


def _reason(faults: Iterable[Fault]) -> str:
    kinds = sorted(fault.kind for fault in faults)
    return ",".join(f"{kind}:{kinds.count(kind)}" for kind in dict.fromkeys(kinds))


class _Turn:
    """A turn that is faulty: the messages at these indices. `latest`: what was mended so far, by index."""

    def __init__(
        self, history: list[Any], ledger: Ledger, active: Active, indices: range, latest: dict[int, Record]
    ) -> None:
        self._history = history
        self._ledger = ledger
        self._dialect = ledger.dialect
        self._active = active
        self._indices = indices
        self._latest = latest

    def is_done(self, faults: list[Fault]) -> bool:
        """Whether it was mended of these faults, and what was put in at its end, or moved there, still stands there."""
        latest, reason = self._latest, _reason(faults)
        mended = [at for at in self._indices if at in latest and latest[at].reason == reason]
        word = self._dialect.user_message(CONTINUATION)
        put_in = next((at for at in mended if latest[at].message == word), None)
        if put_in is None:
            return bool(mended) and ("system_apart" not in reason or mended[-1] == self._indices[-1])
        behind = range(put_in + 1, self._indices.stop)
        return not any(at not in latest or latest[at].message is not None for at in behind)

    def mended(self, faults: list[Fault], now_ms: int) -> list[Record]:
        """A record for each message that is to stand in the view otherwise than it does."""
        made: list[Record] = []
        reason = _reason(faults)
        for index, message in zip(self._indices, self._without_faults(faults), strict=True):
            shown = self._shown(index)
            with suppress(RecursionError):  # what is nested too deeply for a record is left, and reported
                if message is not shown and (plain := as_plain(message)) != as_plain(shown):
                    heads = self._ledger.heads
                    made.append(record_of(heads, "repaired", index, index + 1, now_ms, message=plain, reason=reason))
        return made

    def _shown(self, index: int) -> Any | None:
        return self._latest[index].message if index in self._latest else self._history[index]

    def _without_faults(self, faults: list[Fault]) -> list[Any | None]:
        """The messages as they are to stand in the view."""
        start, dialect = self._indices.start, self._dialect
        blocks: defaultdict[int, set[int]] = defaultdict(set)
        apart = False
        for fault in faults:
            if fault.kind == "result_apart" and self._ledger.turn_start_at(fault.index) >= start:
                apart = True
            elif fault.kind not in _OF_A_TURN:
                blocks[fault.index].add(fault.block)
        wanted = [
            _without_blocks(dialect, self._history[at], blocks[at]) if at in blocks else self._history[at]
            for at in self._indices
        ]
        kinds = {fault.kind for fault in faults}
        if "ill_formed" in kinds:
            wanted = [None if message is None else dialect.well_formed(message) for message in wanted]
        if "foreign_id" in kinds:
            wanted = [None if message is None else dialect.with_plain_ids(message) for message in wanted]
        if apart:
            self._put_results_first(wanted)
        if "system_apart" in kinds:
            self._put_systems_last(wanted)
        if dialect.profile.thinking_is_content:
            self._end_in_speech(wanted)
        self._put_words_in(wanted)
        return wanted

    def _put_results_first(self, wanted: list[Any | None]) -> None:
        """The results of a turn ahead of all else that answers its assistant."""
        behind = range(_run_end(wanted), len(wanted))
        answers = [at for at in behind if wanted[at] is not None]
        for at, message in zip(answers, self._dialect.results_first([wanted[at] for at in answers]), strict=True):
            wanted[at] = message

    def _put_systems_last(self, wanted: list[Any | None]) -> None:
        """The system messages of a turn behind its users', as one; those that head the list stay."""
        places = range(max(0, self._ledger.stable_prefix_end() - self._indices.start), len(wanted))
        by_role: defaultdict[str, list[Any]] = defaultdict(list)
        for at in places:
            if wanted[at] is not None:
                by_role[role_of(wanted[at])].append(wanted[at])
        if not by_role["user"]:
            if not any(self._ledger.traits[self._indices[at]].role == "user" for at in places):
                return  # it is still to come
            by_role["user"].append(self._dialect.user_message(CONTINUATION))  # all that the user had said was faulty
        systems = self._dialect.joined_systems(by_role["system"])
        for at, message in zip_longest(places, [*by_role["assistant"], *by_role["user"], *systems]):
            wanted[at] = message

    def _end_in_speech(self, wanted: list[Any | None]) -> None:
        """The assistant's part without the thinking that it ends in, where anything stands behind it."""
        end = _run_end(wanted)
        if not any(message is not None and role_of(message) not in SYSTEM_ROLES for message in wanted[end:]):
            return
        for at in reversed(range(end)):
            message = wanted[at]
            if message is None or role_of(message) != "assistant":
                continue
            read = self._dialect.read(message, self._indices.start + at).blocks
            spoken = len(read)
            while spoken and isinstance(read[spoken - 1], Thinking):
                spoken -= 1
            if spoken < len(read):
                wanted[at] = self._dialect.without_blocks(message, frozenset(range(spoken, len(read))))
            if spoken:
                return

    def _put_words_in(self, wanted: list[Any | None]) -> None:
        """A word for each message taken out without which roles would not be as the provider wants them."""
        roles_behind: list[str] = []
        behind = ""
        for message in reversed(wanted):
            roles_behind.append(behind)
            behind = behind if message is None else role_of(message)
        before = self._role_before()
        for at, behind in enumerate(reversed(roles_behind)):
            if wanted[at] is None:
                wanted[at] = self._word(self._indices.start + at, before, behind)
            before = before if wanted[at] is None else role_of(wanted[at])

    def _role_before(self) -> str:
        """The role of what the view shows ahead of the turn; empty: nothing."""
        for index in reversed(range(self._active.end, self._indices.start)):
            if (message := self._shown(index)) is not None:
                return role_of(message)
        return role_of(self._active.spans[-1].message) if self._active.spans else ""

    def _word(self, index: int, before: str, behind: str) -> Any | None:
        """The user's, at the very beginning or end or ahead of a system message; the assistant's behind one."""
        ledger, profile = self._ledger, self._dialect.profile
        ends = self._indices.stop == len(ledger) and not behind
        if ledger.traits[index].role == "assistant":
            needed = profile.places_system and before in SYSTEM_ROLES and behind not in ("", "assistant")
            return self._dialect.assistant_message(ACKNOWLEDGEMENT) if needed else None
        opens = index == ledger.stable_prefix_end() and profile.opens_with_user and behind != "user"
        answered = before == "assistant" and not ledger.open_calls
        needed = (
            opens
            or (ends and (answered or not before))
            or (profile.places_system and before == "assistant" and behind in SYSTEM_ROLES)
        )
        return self._dialect.user_message(CONTINUATION) if needed and not ledger.traits[index].system else None


def _run_end(messages: list[Any | None]) -> int:
    """Index behind the last of the assistant's messages."""
    places = (at for at, message in enumerate(messages) if message is not None and role_of(message) == "assistant")
    return max(places, default=-1) + 1


def _without_blocks(dialect: Dialect, message: Any, blocks: set[int]) -> Any | None:
    return None if -1 in blocks else dialect.without_blocks(message, frozenset(blocks))


_WORDS: dict[FaultKind, str] = {
    "orphan_result": "result for call {call!r}, which is not in the turn before it",
    "result_apart": "result for call {call!r} stands apart from its call",
    "dead_call": "call {call!r} of {tool} was never answered",
    "empty_block": "empty text",
    "empty_message": "nothing in it",
    "system_apart": "a system message that does not stand between the user's and the assistant's",
    "thinking_last": "thinking that the assistant's turn ends in",
    "ill_formed": "an empty list of calls, arguments in another form than the API's, a null result or half a character",
    "foreign_id": "id {call!r} or tool name {tool!r} holds what the API does not take",
    "repeated_id": "id {call!r} is used twice in one turn; left as it is",
}


def describe(fault: Fault) -> str:
    """A fault in words, for reports: where, what, never content."""
    place = f"messages[{fault.index}]" + (f".content[{fault.block}]" if fault.block >= 0 else "")
    return f"{place}: {_WORDS[fault.kind].format(call=fault.call, tool=fault.tool)}"
