"""A turn that is only glanced at comes to what a full reading of it comes to."""

from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from foldahead.core.conversation import Conversation, Moment
from foldahead.core.dialects import get_dialect
from foldahead.core.glancing import GlancingConversation
from foldahead.core.policy import Policy
from tests.fleet import Process, Shelf, as_json, summary_for
from tests.histories import (
    Spoken,
    broken_conversations,
    conversations,
)
from tests.unit.test_properties import policies

ROOMY = policies(thresholds=(400, 1_500, 6_000), ratios=(0.7, 1.0), starts=(0.2, 0.5))
"""Policies under which most turns are ordinary, and some are not."""


class Twins:
    """One session twice: read in full at every turn, and glanced at where it may be."""

    def __init__(self, dialect: str, policy: Policy) -> None:
        self.full = Conversation(get_dialect(dialect), policy)
        self.quick = GlancingConversation(get_dialect(dialect), policy)
        self.quick.prepare()
        self.glances = 0

    def view(self, history: list[Any], cold: bool = False) -> None:
        """The view of both. What was glanced at stays unread."""
        moment = Moment(cold=cold)
        wanted = self.full.view(history, moment)
        view = None
        if not self.quick.is_behind:
            view = self.quick.glance(history, cold)
            self.glances += view is not None
        if view is None:
            view = self.quick.view(history, moment)
        assert (view is history) == (wanted is history)
        assert as_json(view) == as_json(wanted)

    def compare(self) -> None:
        """All that is known of both, once both have been read."""
        self.quick.catch_up()
        assert self.quick.plan == self.full.plan
        assert self.quick.records == self.full.records
        assert self.quick.ready.keys() == self.full.ready.keys()
        assert self.quick.standing() == self.full.standing()

    def publish(self, history: list[Any], usage: Any = None) -> None:
        """The end of a turn, for both."""
        for one in (self.full, self.quick):
            one.observe(history)
            if usage is not None:
                one.note_usage(usage)
        self.compare()
        self.quick.prepare()


def _ready(data: st.DataObject, twins: Twins, history: list[Any], spoken: Spoken, policy: Policy) -> None:
    asked = Process(spoken.dialect, policy, Shelf())
    request = asked.ask(history)
    if request is not None:
        made = summary_for(history, request, spoken.dialect, data.draw(st.sampled_from([2, 25, 250])))
        twins.full.add_ready(made)
        twins.quick.add_ready(made)


def _grow(spoken: Spoken, policy: Policy, data: st.DataObject, lengths: list[int]) -> None:
    twins = Twins(spoken.dialect, policy)
    history: list[Any] = []
    for length in lengths:
        history.extend(spoken.messages[len(history) : length])
        if data.draw(st.integers(0, 3)) == 0:
            _ready(data, twins, history, spoken, policy)
        twins.view(history, cold=data.draw(st.integers(0, 5)) == 0)
        if data.draw(st.integers(0, 5)) == 0:
            twins.view(history)
        match data.draw(st.sampled_from(["publish", "publish", "publish", "say nothing", "pin", "reject", "answered"])):
            case "publish":
                twins.publish(history)
                if data.draw(st.integers(0, 3)) == 0:
                    _ready(data, twins, history, spoken, policy)
                    twins.view(history)
            case "pin":
                twins.publish(history)
                message = data.draw(st.sampled_from(history))
                twins.full.pin(message)
                twins.quick.pin(message)
            case "reject":
                twins.compare()
                twins.full.reject()
                twins.quick.reject()
            case "answered":
                at = len(history)
                if at < len(spoken.messages) and spoken.messages[at]["role"] == "assistant":
                    history.append(spoken.messages[at])
                twins.publish(history)
            case _:
                pass
    twins.publish(history)
    event(f"glances: {min(twins.glances, 5)}")


@given(conversations(most_turns=10), ROOMY, st.data())
def test_a_glance_comes_to_what_a_full_reading_does(spoken: Spoken, policy: Policy, data: st.DataObject) -> None:
    _grow(spoken, policy, data, spoken.requests)


@given(broken_conversations(), ROOMY, st.data())
def test_a_glance_at_what_comes_in_broken_does_too(spoken: Spoken, policy: Policy, data: st.DataObject) -> None:
    _grow(spoken, policy, data, list(range(1, len(spoken.messages) + 1)))
