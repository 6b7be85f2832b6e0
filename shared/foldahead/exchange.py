"""What one session tells the servers, and what it takes in of what they said: standing, records, events, overrides."""

import logging
import time
from typing import Any

import msgspec

from foldahead import wire
from foldahead.core.events import CompactionFailed, SessionRejected, events_of, safe_message
from foldahead.core.glancing import GlancingConversation
from foldahead.core.plan import Plan
from foldahead.core.policy import Policy, policy_from
from foldahead.core.record import Record, decode_record
from foldahead.errors import InvalidPolicy, UnusableRecord
from foldahead.outbox import Outbox

_log = logging.getLogger("foldahead")


def now_ms() -> int:
    """The time, as records and events have it."""
    return time.time_ns() // 1_000_000


class Exchange:
    """Between a session's conversation and its outbox. The session's lock is held by whoever calls."""

    def __init__(
        self,
        name: str,
        workspace: str,
        parent: str,
        conversation: GlancingConversation,
        outbox: Outbox,
    ) -> None:
        self._name = name
        self._workspace = workspace
        self._parent = parent
        self._conversation = conversation
        self._outbox = outbox
        self._own_policy = conversation.policy
        self._overrides: bytes = b""
        self._waited_turns = 0
        self._noted: dict[str, str] = {}
        """By reason, the last turn whose plan gave it."""
        self.last_record: Record | None = None

    # -- what is heard -----------------------------------------------------------------------------------------------

    def take_in(self, history: list[Any]) -> None:
        """All that was heard since the last turn."""
        outbox = self._outbox
        outbox.has_news = False
        if outbox.edit_noticed:
            outbox.edit_noticed = False
            self._conversation.observe_afresh(history)
        while (answer := outbox.next_answer()) is not None:
            if answer.overrides != self._overrides:
                self._overrides = answer.overrides
                self._apply_overrides()
            if answer.records:
                self._take_records(answer.records)
            for ready in answer.ready:
                self._conversation.add_ready(ready)

    def _take_records(self, encoded: tuple[bytes, ...]) -> None:
        conversation = self._conversation
        try:
            theirs = [decode_record(record) for record in encoded]
        except UnusableRecord as error:
            _log.warning("foldahead: records of session %s left out: %s", self._name, error)
            return
        known = {record.identity for record in theirs}
        ours = [record for record in conversation.records if record.identity not in known]
        conversation.replace_records([*theirs, *ours])
        self._outbox.keep_records(conversation.records)
        spans = conversation.active.spans
        self.last_record = self.last_record or (spans[-1] if spans else None)

    # -- the policy, and the workspace's overrides of it -------------------------------------------------------------

    @property
    def own_policy(self) -> Policy:
        """The session's own policy, without the workspace's overrides."""
        return self._own_policy

    @own_policy.setter
    def own_policy(self, policy: Policy) -> None:
        if policy != self._own_policy:
            self._own_policy = policy
            self._apply_overrides()

    def _apply_overrides(self) -> None:
        """The session's own policy with the workspace's central values over it; said once when they do not fit."""
        self._conversation.calm = None
        try:
            values = msgspec.json.decode(self._overrides, type=dict[str, Any]) if self._overrides else {}
            own = {name: getattr(self._own_policy, name) for name in self._own_policy.__struct_fields__}
            self._conversation.policy = policy_from(own | values) if values else self._own_policy
        except (msgspec.DecodeError, InvalidPolicy, TypeError) as error:
            self._conversation.policy = self._own_policy
            _log.warning("foldahead: policy overrides of workspace %s left out: %s", self._workspace, error)

    # -- what is told ------------------------------------------------------------------------------------------------

    def note(self, plan: Plan, degraded_before: str) -> bool:
        """Keep and report what a plan did. Returns whether there is anything to tell the servers.

        A request that is made again is of the same turn: what that waited for, or lacked, is noted once.
        """
        turn = self._turn_id()
        is_new, self._noted[plan.reason] = self._noted.get(plan.reason) != turn, turn
        self._waited_turns += is_new and plan.reason == "not_ready"
        lacks_boundary = is_new and plan.reason == "no_valid_boundary"
        if lacks_boundary:
            self._outbox.tell(self._no_boundary(plan), now_ms())
        if not plan.records or self._conversation.policy.mode != "on":
            return lacks_boundary
        spans = [record for record in plan.records if record.stands_for_span]
        self.last_record = spans[-1] if spans else plan.records[-1]
        for event in events_of(plan, self._name, turn, degraded_before, self._waited_turns):
            self._outbox.tell(event, now_ms())
        self._waited_turns = 0 if spans else self._waited_turns
        self.put_records()
        return True

    def note_rejection(self, span: Record | None, error: Exception) -> None:
        """A provider refused a view; `span` is the summary that was taken back, if there was one."""
        event = SessionRejected(
            session_id=self._name,
            turn_id=self._turn_id(),
            cache_key=span.cache_key if span else None,
            error_class=type(error).__name__,
            error_message=safe_message(error),
        )
        self._outbox.tell(event, now_ms())
        self.put_records()
        self.last_record = None

    def put_records(self) -> None:
        """Records go out with how the session stands, also before its first publish in this process."""
        self._outbox.keep_records(self._conversation.records)
        self.put_standing(None)

    def put_standing(self, turn_id: str | None) -> None:
        """How the session stands now, and whether it wants a summary."""
        conversation, policy = self._conversation, self._conversation.policy
        standing = msgspec.structs.replace(conversation.standing(turn_id), parent_session=self._parent)
        wanted = conversation.wants_work(standing)
        uploads = wanted or standing.pending_tokens >= policy.upload_ratio * policy.threshold
        self._outbox.put(
            wire.Delta(
                workspace=self._workspace,
                session=self._name,
                standing=standing,
                due_in_s=0.0 if wanted else None,
                upload=policy.mode != "off" and uploads,
            )
        )

    def _no_boundary(self, plan: Plan) -> CompactionFailed:
        watermark = plan.active.end
        return CompactionFailed(
            session_id=self._name,
            turn_id=self._turn_id(),
            watermark_before=watermark,
            span_message_count=len(self._conversation.ledger) - watermark,
            failure_mode="no_valid_boundary",
        )

    def _turn_id(self) -> str:
        return str(len(self._conversation.ledger.turn_starts))
