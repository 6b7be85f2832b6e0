"""Several processes of one session without a server: they exchange records and summaries as the wire does."""

import copy
import hashlib
import json
from itertools import pairwise
from math import inf
from typing import Any

from foldahead.core.canonical import is_whole, whole
from foldahead.core.conversation import Conversation, Moment
from foldahead.core.cut import tail_start
from foldahead.core.decide import Means, Start, decide
from foldahead.core.dialects import get_dialect
from foldahead.core.glancing import GlancingConversation
from foldahead.core.ledger import ledger_of
from foldahead.core.messages import Thinking
from foldahead.core.plan import Plan
from foldahead.core.policy import Policy
from foldahead.core.record import Record, decode_record, encode_record
from foldahead.core.replay import replay
from foldahead.core.request import SummaryRequest
from foldahead.core.standing import Ready
from foldahead.core.summarise import ready_of
from foldahead.core.view import made_from
from tests.judging import faults_of

MEANS = Means(kind="text", model="anthropic:claude-haiku-5-5", prompt_version="1.0.0", summary_s=0.0)


def as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=False)


def content_mark(messages: list[Any], dialect: str) -> str:
    """A mark of what messages say, cache breakpoints aside."""
    bare = json.dumps([without_breakpoints(message) for message in messages], sort_keys=True)
    return hashlib.sha256((dialect + bare).encode()).hexdigest()[:16]


def without_breakpoints(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_breakpoints(item) for key, item in value.items() if key != "cache_control"}
    return [without_breakpoints(item) for item in value] if isinstance(value, list) else value


class Shelf:
    """What Redis holds for one session: records in their order, each once, and the summaries that are ready."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self._known: set[object] = set()
        self.ready: list[Ready] = []

    def append(self, records: list[Record]) -> None:
        for record in records:
            if record.identity not in self._known:
                self._known.add(record.identity)
                self.records.append(encode_record(record))

    def all(self) -> list[Record]:
        return [decode_record(record) for record in self.records]


class Process:
    """One process that holds the session: every view is judged as it is made."""

    def __init__(self, dialect: str, policy: Policy, shelf: Shelf) -> None:
        self.dialect = dialect
        self.policy = policy
        self.shelf = shelf
        self.conversation = GlancingConversation(get_dialect(dialect), policy)
        self.conversation.prepare()
        self.refused: set[tuple[str, str]] = set()

    def exchange(self) -> None:
        self.shelf.append(self.conversation.records)
        theirs = self.shelf.all()
        known = {record.identity for record in theirs}
        ours = [record for record in self.conversation.records if record.identity not in known]
        self.conversation.replace_records([*theirs, *ours])
        for ready in self.shelf.ready:
            self.conversation.add_ready(ready)

    def view(self, history: list[Any], moment: Moment, *, broken: bool = False) -> list[Any]:
        before = as_json(history)
        view = self.conversation.glance(history, inf if moment.cold else 0.0)
        if view is None:
            view = self.conversation.view(history, moment)
        self.conversation.catch_up()
        assert as_json(history) == before, "the history was changed"
        self.check(history, view, broken=broken)
        return view

    def check(self, history: list[Any], view: list[Any], *, broken: bool) -> None:
        plan = self.conversation.plan
        check_validity(history, view, self.dialect, broken=broken)
        account = ledger_of(history, self.conversation.dialect)
        assert all(made_from(record, account) for record in plan.records), "recorded of what was edited in place"
        if self.is_stale(history):
            return
        check_replay(history, self.conversation, view)
        check_spans(history, self.conversation)
        check_nothing_twice(history, view, self.conversation, broken=broken)
        check_tail(history, view, self.conversation, broken=broken)
        conversation = self.conversation
        tail = tail_start(conversation.ledger, self.policy, conversation.calibration.slope)
        check_shrinking(plan, self.policy, tail)
        for span in self.conversation.active.spans:
            assert (span.head_end, as_json(span.message)) not in self.refused, "a refused summary was shown again"

    def is_stale(self, history: list[Any]) -> bool:
        """Whether the agent edited a message in place and this process has not noticed yet: it does at a swap."""
        return ledger_of(history, self.conversation.dialect).heads != self.conversation.ledger.heads

    def ask(self, history: list[Any]) -> SummaryRequest | None:
        """What a watcher would start after this turn's publish."""
        conversation = self.conversation
        before = conversation.total_tokens()
        conversation.observe(history)
        conversation.growth.note(conversation.total_tokens() - before, 1.0)
        standing = conversation.standing()
        conversation.prepare()
        decision = decide(standing, "w", MEANS)
        return decision.request if isinstance(decision, Start) else None

    def reject(self, history: list[Any]) -> None:
        self.conversation.observe(history)
        spans = self.conversation.active.spans
        self.refused |= {(span.head_end, as_json(span.message)) for span in spans}
        self.conversation.reject()
        shown = self.conversation.shown(history)
        dialect = self.conversation.dialect
        without_thinking = [bare for message in history if (bare := dialect.without_thinking(message)) is not None]
        assert shown is history or shown == without_thinking, "the history was not given back"


def summary_for(history: list[Any], request: SummaryRequest, dialect: str, words: int) -> Ready:
    """A summary that says what it was made of, so that a view can be held against it."""
    mark = content_mark(history[request.start : request.end], dialect)
    return ready_of(request, f"Summary of {request.start}..{request.end} {mark} " + "word " * words)


def copied(history: list[Any]) -> list[Any]:
    return copy.deepcopy(history)


# -- what holds of every view --------------------------------------------------------------------------------------


def check_validity(history: list[Any], view: list[Any], dialect: str, *, broken: bool) -> None:
    after = faults_of(view, dialect, reused_ids=True)
    if not broken:
        assert not after, f"invalid view: {after[:3]}"
    elif view is not history:
        halves = [] if is_whole(history) else ["half a character"]  # of these alone the judge would speak
        before = halves + faults_of(whole(history), dialect, reused_ids=True)
        assert len(after) <= len(before), f"made worse: {before[:4]} -> {after[:4]}"
    if dialect == "openai-strict" and view is not history:
        roles = [message["role"] for message in view]
        pairs = list(pairwise(roles))
        assert ("user", "user") not in pairs, roles
        assert ("assistant", "assistant") not in pairs, roles


def check_replay(history: list[Any], conversation: Conversation, view: list[Any]) -> None:
    records = [decode_record(encode_record(record)) for record in conversation.records]
    again = replay(copied(history), records, conversation.dialect)
    assert list(map(as_json, again)) == list(map(as_json, view)), "replay differs"


def check_spans(history: list[Any], conversation: Conversation) -> None:
    """A summary stands only for what it was made from."""
    for span in conversation.active.spans:
        if span.cache_key:
            mark = content_mark(history[span.start : span.end], conversation.dialect.name)
            assert mark in as_json(span.message), "a summary of other content"


def marks_of(message: Any) -> set[str]:
    """The marks that the strategies put into texts: `m017~`."""
    words = as_json(message).replace('"', " ").split()
    return {word for word in words if word.endswith("~") and word.startswith("m")}


def check_nothing_twice(history: list[Any], view: list[Any], conversation: Conversation, *, broken: bool) -> None:
    active = conversation.active
    summaries = [as_json(span.message) for span in active.spans]
    shown = [message for message in view if as_json(message) not in summaries]
    counted: dict[str, int] = {}
    for message in shown:
        for mark in marks_of(message):
            counted[mark] = counted.get(mark, 0) + 1
    if not broken:
        assert not {mark for mark, count in counted.items() if count > 1}, "something stands twice"
    stubbed = {int(place.partition("/")[0]) for edit in active.edits for place in edit.stubs or {}}
    edited = {edit.start for edit in active.edits if edit.kind != "elided"} | stubbed
    for at in range(active.end, len(history)):
        if at not in edited:
            assert marks_of(history[at]) <= counted.keys(), f"message {at} is lost"
    for span in active.spans:
        for at in range(span.start, span.end):
            if at not in active.pins and at not in active.asked and not broken:
                assert not marks_of(history[at]) & counted.keys(), f"message {at} is shown and summarised"


def check_tail(history: list[Any], view: list[Any], conversation: Conversation, *, broken: bool) -> None:
    """The tail stands byte for byte, but for what the records name and cache breakpoints."""
    active = conversation.active
    tail = tail_start(conversation.ledger, conversation.policy, conversation.calibration.slope)
    edits = {at for edit in active.edits for at in range(edit.start, edit.end)}  # a rewind may bring stubs into it
    shown = [as_json(without_breakpoints(message)) for message in view]
    at_view = 0
    for at in range(max(tail, active.end), len(history)):
        if at not in edits:
            wanted = as_json(without_breakpoints(history[at]))
            assert wanted in shown[at_view:], f"tail message {at}"
            at_view = shown.index(wanted, at_view) + 1
    for edit in active.edits:
        if edit.kind == "thinking_removed" and not broken:
            check_thinking_whole_or_absent(history[edit.start], view, conversation)


def check_thinking_whole_or_absent(message: Any, view: list[Any], conversation: Conversation) -> None:
    read = conversation.dialect.read(message, 0)
    thoughts = [block.text for block in read.blocks if isinstance(block, Thinking) and block.text]
    assert not any(json.dumps(thought)[1:-1] in as_json(view) for thought in thoughts), "thinking is left"


def check_shrinking(plan: Plan, policy: Policy, tail: int) -> None:
    if plan.outcome in ("truncated", "elided"):
        assert plan.tokens_after < plan.tokens_before, f"{plan.outcome} did not shrink"
    if plan.outcome == "elided":
        stubbed = [int(place.partition("/")[0]) for record in plan.records for place in record.stubs or {}]
        assert max(stubbed) < tail, "a result of the tail was elided"
    if plan.outcome == "swapped" and plan.tokens_after >= plan.tokens_before:
        assert plan.tokens_after < policy.threshold, "neither smaller nor healed"
