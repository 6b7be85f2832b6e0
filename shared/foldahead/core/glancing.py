"""A conversation that reads as late as it may: an ordinary turn is glanced at, and read once the request is out."""

from typing import Any

from foldahead.core.calm import Calm, calm_of
from foldahead.core.conversation import Conversation, Moment
from foldahead.core.plan import Plan, no_swap_helps
from foldahead.core.record import Record
from foldahead.core.standing import Ready
from foldahead.core.view import MOST_BREAKPOINTS


class GlancingConversation(Conversation):
    """As `Conversation`, and of every history it comes to the same.

    `prepare` after a turn; at the next one `glance` gives the view at once where nothing is to be done. What was only
    glanced at is read by `catch_up`: call it before the plan, the ledger or anything that follows from it is asked for.
    """

    calm: Calm | None = None
    """How it stands after a turn, for a glance at the next one; None where that is to be looked at closely anyway."""
    _unread: list[Any] | None = None
    view_marks: int | None = None
    """Cache breakpoints of the last view; None where it was not glanced at."""

    @property
    def is_behind(self) -> bool:
        """Whether the last turn was only glanced at: the ledger lacks its messages, and `plan` is an earlier one."""
        return self._unread is not None

    def prepare(self) -> None:
        """Work out what the next turn may bring before anything is to be done about it."""
        self.calm = None
        if self.was_given_back or self.has_block_ready:
            return  # thinking goes with the next request, or a block goes in
        calm = calm_of(self._history, self._recorded, self._showing, self.policy, self.calibration, self.model)
        if calm is None:
            return
        if calm.room < 0 and no_swap_helps(self._history.messages, self.ledger, self._scene(Moment())):
            calm.room, calm.speech = calm.room_to_cap, calm.room_to_cap - calm.room
        if calm.is_plain:
            self.envelope = ""
        self.calm = calm

    def glance(self, history: list[Any], idle_s: float, model: str | None = None) -> list[Any] | None:
        """What `view` gives, where a glance proves that nothing is to be done; else None, and nothing has happened.

        The same turn may be glanced at again: an agent that retries a request asks anew.
        `idle_s`: seconds since the last request. `model` is the agent's, None where it is not known anew.
        """
        calm, self.calm, self.view_marks = self.calm, None, None
        if calm is None or calm.room < 0 or (idle_s > calm.is_cold_after_s and self.ready):
            return None
        if model is not None and model != self.model:
            if calm.model or model.__class__ is not str:
                return None
            self.model = model
        if calm.policy is not self.policy or calm.active is not self._recorded.active:
            return None
        if not calm.is_plain and self._has_outgrown_block():
            return None
        seen, count = calm.seen, calm.count
        before = seen[count - 1] if count else None
        if (
            history.__class__ is not list
            or len(history) < count
            or (count and (history[count - 1] is not before or history[0] is not seen[0]))
        ):
            return None
        new = history[count:]
        marks = calm.glance(new, before, calm.waiting, calm.room, calm.speech)
        if marks is None:
            return None
        view = history
        if (shown := calm.shown) is not None:
            marks += calm.marks
            if marks > MOST_BREAKPOINTS or not _goes_on(history, seen):
                return None
            view = [*shown, *new]
        self.calm, self._unread, self.view_marks = calm, new, marks
        return view

    def catch_up(self) -> None:
        """Read what was glanced at, and plan that turn. Raises `InvalidHistory` for what was spoilt since."""
        unread, self._unread = self._unread, None
        if unread is None:
            return
        self.calm = None
        self._take(unread)
        plan = self._quiet_plan(Moment()) or self._make_plan(self._history.messages, Moment(), may_degrade=False)
        if plan.records:  # of messages that the agent changed meanwhile; the next view looks at them again
            plan = Plan(reason=plan.reason or "not_ready", active=self.active)
        self.plan = plan
        if self.policy.mode == "on":
            self._apply(plan)

    def observe(self, history: list[Any]) -> bool:
        self.catch_up()
        self.calm = None
        return super().observe(history)

    def observe_afresh(self, history: list[Any]) -> None:
        self.catch_up()
        self.calm = None
        super().observe_afresh(history)

    def replace_records(self, records: list[Record]) -> None:
        super().replace_records(records)
        if self.calm is not None and self.calm.active is not self.active:
            self.calm = None

    def add_ready(self, ready: Ready) -> None:
        self.catch_up()
        super().add_ready(ready)
        if ready.kind == "native":
            self.calm = None
        elif self.calm is not None:
            self.calm.room, self.calm.speech = self.calm.room_for_summary, 0


def _goes_on(history: list[Any], seen: list[Any]) -> bool:
    """Whether a history begins with what was seen.

    Comparing lists passes over what is the same object without a look at it, and over many thousands in microseconds;
    at a message that says something else it finds no order.
    """
    try:
        return seen <= history
    except (TypeError, RecursionError):
        return False
