"""A turn that is only glanced at comes to what a full reading of it comes to."""

from collections import UserDict
from enum import Enum
from math import inf
from typing import Any

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from benchmarks.sessions import SilentCarrier
from foldahead import Policy, Session, wire
from foldahead.core.conversation import Conversation, Moment
from foldahead.core.dialects import get_dialect
from foldahead.core.glancing import GlancingConversation
from foldahead.core.standing import Offer, Ready
from foldahead.core.tokens import UNLIMITED, estimate_text, least_tokens, most_tokens
from foldahead.errors import InvalidHistory, SessionClosed
from tests.fleet import Process, Shelf, as_json, summary_for
from tests.histories import (
    Spoken,
    answers,
    assistant,
    broken_conversations,
    call,
    calls,
    conversations,
    document,
    picture,
    result,
    rounds,
    says,
    system,
    text,
    thinking,
    user,
)
from tests.unit.test_conversation import ready
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
        view = self.quick.glance(history, inf if cold else 0.0)
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


def _move_breakpoint(history: list[Any]) -> None:
    for message in history:
        for block in message["content"] if isinstance(message["content"], list) else []:
            block.pop("cache_control", None)
    if isinstance(history[-1]["content"], list) and history[-1]["content"]:
        history[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}


def _grow(spoken: Spoken, policy: Policy, data: st.DataObject, lengths: list[int]) -> None:
    twins = Twins(spoken.dialect, policy)
    history: list[Any] = []
    for length in lengths:
        history.extend(spoken.messages[len(history) : length])
        if data.draw(st.integers(0, 3)) == 0:
            _ready(data, twins, history, spoken, policy)
        if spoken.dialect == "anthropic" and data.draw(st.integers(0, 2)) == 0:
            _move_breakpoint(history)
        twins.view(history, cold=data.draw(st.integers(0, 5)) == 0)
        if data.draw(st.integers(0, 5)) == 0:
            twins.view(history)
        _end_turn(spoken, policy, data, twins, history)
    twins.publish(history)
    event(f"glances: {min(twins.glances, 5)}")


def _end_turn(spoken: Spoken, policy: Policy, data: st.DataObject, twins: Twins, history: list[Any]) -> None:
    match data.draw(st.sampled_from([*["publish"] * 3, "say nothing", "pin", "reject", "answered"])):
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


@given(conversations(most_turns=10), ROOMY, st.data())
def test_a_glance_comes_to_what_a_full_reading_does(spoken: Spoken, policy: Policy, data: st.DataObject) -> None:
    _grow(spoken, policy, data, spoken.requests)


@given(broken_conversations(), ROOMY, st.data())
def test_a_glance_at_what_comes_in_broken_does_too(spoken: Spoken, policy: Policy, data: st.DataObject) -> None:
    _grow(spoken, policy, data, list(range(1, len(spoken.messages) + 1)))


WORDS = st.text(st.characters(codec="utf-8")) | st.text("\U00020000\U0002a6dfx\u20ac", min_size=9)


@given(WORDS, st.sampled_from([1, 1, 5_000]), st.integers(-5, 3_000))
def test_the_bounds_of_a_text_hold_its_estimate(said: str, times: int, room: int) -> None:
    said *= times
    assert least_tokens(said) <= estimate_text(said) <= most_tokens(said, room)


@given(WORDS, st.sampled_from([0, 1, 40_000]), st.sampled_from([0, 1, 40_000]))
def test_a_text_with_half_a_character_anywhere_has_room_nowhere(said: str, before: int, behind: int) -> None:
    assert most_tokens("x" * before + said + "\ud83d" + "\u20ac" * behind, 10**6) == UNLIMITED


def after(dialect: str, history: list[Any]) -> GlancingConversation:
    """A conversation that has observed a history, ready for the next turn."""
    conversation = GlancingConversation(get_dialect(dialect), Policy())
    conversation.observe(history)
    conversation.prepare()
    return conversation


ASKED = [user("Please fix it."), assistant("I look.", call("c1"), call("c2"))]
SPOKEN = [user("Please fix it."), assistant("Done.")]
CALLED = [says("Be kind.", "system"), says("Please fix it."), calls("c1", "c2", said="I look.")]
SAID = [says("Please fix it."), says("Done.", "assistant")]


@pytest.mark.parametrize(
    ("dialect", "history", "new"),
    [
        ("anthropic", [], [says("Please fix it.")]),
        ("anthropic", ASKED, [user(result("c2", "x" * 90_000), result("c1", "not found", is_error=True))]),
        (
            "anthropic",
            ASKED,
            [
                user(
                    result("c1", [text("found"), picture()]),
                    {"type": "tool_result", "tool_use_id": "c2"},
                    "And now?",
                    picture(),
                )
            ],
        ),
        ("anthropic", ASKED, [user(result("c1")), user(result("c2"))]),
        ("anthropic", ASKED, [user(result("c1"), {**result("c2"), "cache_control": {"type": "ephemeral"}})]),
        ("anthropic", SPOKEN, [says("Thanks. And the tests?")]),
        ("anthropic", SPOKEN, [user("Thanks."), user("And the tests?")]),
        ("anthropic", [*SPOKEN, user("And?")], []),
        ("openai", [], [says("Be kind.", "system"), says("Hello, what can I do?", "assistant"), says("Fix it.")]),
        ("openai", CALLED, [answers("c1"), answers("c2", [text("found")])]),
        ("openai", CALLED, [answers("c2", ""), answers("c1", []), says("And now?")]),
        ("openai", SAID, [{**says("And?"), "tool_calls": None, "name": "ann"}]),
        ("openai-strict", SAID, [{"role": "user", "content": [text("And the tests?")], "name": "ann"}]),
    ],
)
def test_ordinary_turns_are_glanced_at(dialect: str, history: list[Any], new: list[Any]) -> None:
    conversation = after(dialect, history)
    view = conversation.glance(whole := [*history, *new], idle_s=0.0)
    assert view is whole
    assert len(conversation.ledger) == len(history), "it was read all the same"
    conversation.catch_up()
    assert len(conversation.ledger) == len(whole)
    assert conversation.plan.reason == "below_threshold"
    assert conversation.ledger.faults == []


def test_a_request_that_is_made_again_is_glanced_at_again_also_when_more_came() -> None:
    conversation = after("anthropic", ASKED)
    history = [*ASKED, user(result("c1"))]
    assert conversation.glance(history, idle_s=0.0) is history
    assert conversation.glance(history, idle_s=0.0) is history
    history.append(user(result("c2")))
    assert conversation.glance(history, idle_s=0.0) is history
    assert len(conversation.ledger) == len(ASKED)
    conversation.catch_up()
    assert len(conversation.ledger) == len(history)
    assert conversation.glance(history, idle_s=0.0) is None, "what it rests on was read meanwhile"


@pytest.mark.parametrize(
    ("dialect", "history", "new"),
    [
        ("anthropic", ASKED, [user(result("c1"), result("c9"))]),
        ("anthropic", ASKED, [user(result("c1"), result("c1"))]),
        ("anthropic", ASKED, [user("Wait.", result("c1"), result("c2"))]),
        ("anthropic", ASKED, [user(result("c1"), "Stop.")]),
        ("anthropic", ASKED, [user(result("c1", 7), result("c2"))]),
        ("anthropic", ASKED, [user(result("c1", None), result("c2"))]),
        ("anthropic", ASKED, [user(result("c1", [document()]), result("c2"))]),
        ("anthropic", ASKED, [user(result("c1"), result("c2")), assistant("Done.")]),
        ("anthropic", ASKED, [UserDict(user(result("c1"), result("c2")))]),
        ("anthropic", SPOKEN, [says(" ")]),
        ("anthropic", SPOKEN, [says("half \ud83d")]),
        ("anthropic", ASKED, [user(result("c1", "half \ud83d"), result("c2"))]),
        ("openai", CALLED, [answers("c1", "half \ud83d"), answers("c2")]),
        ("anthropic", SPOKEN, [user("")]),
        ("anthropic", SPOKEN, [user("And?"), system()]),
        ("anthropic", SPOKEN, [user(document())]),
        ("anthropic", SPOKEN, [user({**text("And?"), "citations": ["long"]})]),
        ("anthropic", SPOKEN, [user(thinking())]),
        ("anthropic", SPOKEN, [{"role": "user", "content": None}]),
        ("anthropic", [*SPOKEN, user("And?"), assistant(text(""))], [says("Well?")]),
        ("anthropic", [*SPOKEN, user("And?"), system()], [says("Well?")]),
        ("anthropic", [*SPOKEN, user("And?"), assistant(thinking())], [says("Well?")]),
        ("openai", CALLED, [answers("c1"), says("Stop.")]),
        ("openai", CALLED, [answers("c9")]),
        ("openai", CALLED, [answers("c1", None), answers("c2")]),
        ("openai", CALLED, [answers("c1", {}), answers("c2")]),
        ("openai", CALLED, [says("Be quick.", "system")]),
        ("openai", SAID, [{**says("And?"), "reasoning": "hm"}]),
        ("openai", SAID, [says("")]),
        ("openai", SAID, [{"role": "user", "content": ["And?"]}]),
        ("openai", SAID, [{**says("And?"), "tool_calls": []}]),
        ("openai", CALLED, [{**answers("c1"), "tool_calls": []}, answers("c2")]),
        ("openai", [], [says("Please fix it."), calls("c1")]),
        ("openai-strict", [*SAID, says("And?")], [says("Well?")]),
        ("openai-strict", CALLED, [answers("c1"), answers("c2"), says("And now?")]),
    ],
)
def test_whatever_else_comes_is_read_in_full(dialect: str, history: list[Any], new: list[Any]) -> None:
    assert after(dialect, history).glance([*history, *new], idle_s=0.0) is None


def test_a_history_that_does_not_go_on_is_read_in_full() -> None:
    other = [user("Please fix it."), *ASKED[1:]]
    for history in ([*other, user(result("c1"), result("c2"))], ASKED[:1]):
        assert after("anthropic", ASKED).glance(history, idle_s=0.0) is None


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
def test_a_summary_that_cannot_help_until_the_user_speaks_costs_no_turn_a_closer_look(dialect: str) -> None:
    policy = Policy(threshold_tokens=1_000, hard_cap_tokens=9_000, preserve_recent_turns=1, min_span_tokens=1)
    twins = Twins(dialect, policy)
    history = rounds(12, dialect=dialect)[:-2]
    history[0] = {**history[0], "content": "Please fix it. " + "All of it. " * 300}  # pinned: the user's last word
    twins.publish(history[:-1])
    made = ready(twins.full, history[:-1], 21)
    twins.full.add_ready(made)
    twins.quick.add_ready(made)
    twins.view(history)
    twins.compare()
    assert twins.full.plan.reason == "not_smaller"
    glanced = twins.glances
    for at in range(20, 24):
        wanted, brought = rounds(at + 1, chars=40, dialect=dialect)[-4:-2]
        history.append(wanted)
        twins.publish(history)
        history.append(brought)
        twins.view(history)
    assert twins.glances == glanced + 4
    history.append(rounds(1, dialect=dialect)[-2])
    twins.publish(history)
    history.append(rounds(1, dialect=dialect)[-1])
    twins.view(history)
    assert twins.glances == glanced + 4
    assert twins.full.plan.outcome == "swapped"


class Watched(Session):
    """A session that says how it came to its last view."""

    @property
    def glanced(self) -> bool:
        return self._conversation.view_marks is not None


class Told:
    """A session whose link is silent, and what it has told."""

    def __init__(self, policy: Policy) -> None:
        self.carrier = SilentCarrier()
        self.session = Watched("s", "acme", get_dialect("anthropic"), policy, self.carrier)

    def events(self) -> list[str]:
        return [event["type"] for event in self.whole_events()]

    def whole_events(self) -> list[dict[str, Any]]:
        assert self.carrier.outbox is not None
        return [msgspec.json.decode(event) for event in self.carrier.outbox.take_events()]

    def summarise(self, offer: Offer | None = None) -> None:
        """Have a summary come in of the span that the session offers, or offered."""
        offer = offer or self.session.standing.offer
        assert offer is not None
        assert self.carrier.outbox is not None
        made = Ready(
            cache_key="k", kind="text", model="m", start=0, end=offer.end, head_end=offer.head_end, text="They worked."
        )
        self.carrier.outbox.receive(wire.Answer(known=True, ready=(made,)))


LOW = Policy(threshold_tokens=1_000, hard_cap_tokens=9_000, preserve_recent_turns=1, min_span_tokens=1)
BARE = Policy(
    threshold_tokens=1_000,
    hard_cap_tokens=9_000,
    preserve_recent_turns=3,
    min_span_tokens=1,
    tail_thinking="strip",
)


class Named(str, Enum):  # noqa: UP042 - as agents have it: `str` gives no value of it
    OPUS = "claude-opus-5-5"


class Spelled:
    """A model as some kits have it."""

    def __str__(self) -> str:
        return "claude-opus-5-5"


@pytest.mark.parametrize("model", ["claude-opus-5-5", Named.OPUS, Spelled()], ids=["text", "enum", "object"])
def test_a_model_is_known_by_its_name_whatever_it_is_given_as(model: Any) -> None:
    told = Told(Policy())
    history: list[Any] = []
    for _ in range(2):
        history.append(user("And?"))
        assert told.session.request(model=model, messages=history)["model"] is model
        history.append(assistant("Yes."))
        told.session.publish(history)
        assert told.session.standing.model.__class__ is str
        assert told.session.standing.model == "claude-opus-5-5"
        assert told.carrier.outbox is not None
        assert told.carrier.outbox.delta() is not None


def test_the_model_of_a_request_that_is_made_again_is_the_last_ones() -> None:
    told = Told(Policy())
    for model in ("claude-opus-5-5", "claude-sonnet-5-5", ""):
        told.session.request(model=model, messages=[user("Please fix it.")])
    assert told.session.standing.model == ""


def test_a_session_that_is_closed_in_the_middle_of_a_glance_is_closed() -> None:
    told = Told(Policy())

    class Closing(str):
        """A model's name that is compared just when another thread closes the session."""

        __hash__ = str.__hash__

        def __ne__(self, other: object) -> bool:
            told.session.close()
            return False

        __eq__ = object.__eq__

    history = [user("Please fix it.")]
    assert told.session.request(model=Closing("m"), messages=history)["messages"] is history
    for ask in (lambda: told.session.request(messages=history), lambda: told.session.view(history)):
        with pytest.raises(SessionClosed):
            ask()


def test_what_a_glanced_turn_has_to_tell_goes_out_with_the_publish() -> None:
    told = Told(Policy(threshold_tokens=500, hard_cap_tokens=50_000, preserve_recent_turns=0, min_span_tokens=1))
    history: list[Any] = [assistant(call("c1"), call("c2"))]
    told.session.publish(history)
    history.append(user(result("c1", "x" * 3_000)))
    assert told.session.view(history) is history
    assert told.events() == []
    history.append(user(result("c2")))
    told.session.publish(history)
    assert told.session.plan.reason == "no_valid_boundary"
    assert told.events() == ["session.compaction_failed"]


@pytest.mark.parametrize("is_looked_at", [False, True])
def test_a_turn_that_is_asked_for_again_waits_once(is_looked_at: bool) -> None:
    told = Told(BARE)
    history = rounds(12)
    told.session.publish(history[:-1])
    for _ in range(3):
        assert told.session.view(history) is history
        assert not is_looked_at or told.session.plan.reason == "not_ready"
    history.append(assistant("Yes."))
    told.session.publish(history)
    told.summarise()
    history.append(user("And?"))
    assert told.session.view(history) is not history
    assert [event["payload"]["waited_turns"] for event in told.whole_events()] == [1]


@pytest.mark.parametrize("is_looked_at", [False, True])
def test_a_turn_that_is_asked_for_again_lacks_a_boundary_once(is_looked_at: bool) -> None:
    told = Told(Policy(threshold_tokens=500, hard_cap_tokens=50_000, preserve_recent_turns=0, min_span_tokens=1))
    history: list[Any] = [assistant(call("c1"), call("c2"))]
    told.session.publish(history)
    history.append(user(result("c1", "x" * 3_000)))
    for _ in range(3):
        assert told.session.view(history) is history
        assert not is_looked_at or told.session.plan.reason == "no_valid_boundary"
    told.session.publish(history)
    assert told.events() == ["session.compaction_failed"]


def test_a_message_spoilt_between_request_and_publish_is_the_publishs_to_refuse() -> None:
    told = Told(Policy())
    history = list(SPOKEN)
    told.session.publish(history)
    history.append(user("And?"))
    assert told.session.request(model="m", messages=history)["messages"] is history
    history[-1]["content"] = 7
    with pytest.raises(InvalidHistory):
        told.session.publish(history)
    history[-1]["content"] = "And now?"
    assert told.session.view(history) is history
    assert told.session.standing.messages == 3


def test_a_message_emptied_between_request_and_publish_is_mended_in_the_next_view() -> None:
    told = Told(Policy())
    history = rounds(2)
    told.session.publish(history)
    history.append(assistant("Run."))
    told.session.publish(history)
    history.append(user("And?", "Well?"))
    assert told.session.view(history) is history
    history[-1]["content"][0]["text"] = ""
    assert told.session.plan.records == ()
    assert told.session.records == ()
    history += [assistant("Yes."), user("Good.")]
    assert told.session.view(history)[-3]["content"] == [text("Well?")]


def swapped_without_thinking(told: Told) -> tuple[list[Any], int]:
    """A history whose view has a summary and, behind it, a message without its thinking: at which index."""
    history = rounds(12)
    for message in history[1:-2:2]:
        message["content"].insert(0, thinking())
    told.session.publish(history)
    told.summarise()
    assert told.session.view(history) is not history
    return history, told.session.records[-1].start


def test_what_is_edited_in_place_where_thinking_was_taken_out_is_shown_after_the_next_publish() -> None:
    told = Told(BARE)
    history, at = swapped_without_thinking(told)
    for said in ("Step.", "[secret taken out]"):
        history[at]["content"] = [thinking(), text(said), *history[at]["content"][2:]]
        history.append(assistant("Yes."))
        told.session.publish(history)
        history.append(user("And?"))
        assert said in as_json(told.session.view(history))


def test_a_message_that_is_spoilt_when_a_summary_comes_is_told_of_by_the_next_turn() -> None:
    told = Told(BARE)
    history, at = swapped_without_thinking(told)
    history.append(assistant("Yes."))
    told.session.publish(history)
    whole, history[at]["content"] = history[at]["content"], 7
    told.summarise(Offer(start=0, end=3, head_start=b"", head_end=b"3" * 32, span_estimate_tokens=1, span_tokens=1))
    history.append(user("And?"))
    with pytest.raises(InvalidHistory, match="content"):
        told.session.request(messages=history)
    history[at]["content"] = whole
    assert told.session.request(messages=history)["messages"] is not history


def test_breakpoints_that_move_away_from_where_thinking_was_taken_out_are_not_left_there() -> None:
    told = Told(BARE)
    history, at = swapped_without_thinking(told)
    marked = {"cache_control": {"type": "ephemeral"}}
    *before, last = history[at]["content"]
    history[at]["content"] = [*before, {**last, **marked}]
    history.append(assistant("Yes."))
    told.session.publish(history)
    history[at]["content"] = [*before, last]
    history[-2]["content"][-1] |= marked
    history.append(user({**text("And?"), **marked}))
    request = told.session.request(system=[{**text("Be kind."), **marked}] * 2, messages=history)
    assert as_json(request).count("cache_control") == 4


def behind_a_long_task() -> list[Any]:
    """More than a threshold of 1,000 tokens, of which the user's last words, which stay, are nearly all."""
    return [{**rounds(1)[0], "content": "Please fix it. " + "All of it. " * 300}, *rounds(12)[1:-2]]


def test_a_summary_that_comes_between_two_turns_and_would_not_help_costs_the_next_no_closer_look() -> None:
    told, history = Told(LOW), behind_a_long_task()
    told.session.publish(history[:-1])
    told.summarise()
    assert told.session.request(messages=history)["messages"] is history
    assert told.session.glanced
    assert told.session.plan.reason == "not_smaller"


def test_a_summary_that_comes_while_a_turn_is_still_unread_waits_until_it_is_read() -> None:
    told, history = Told(LOW), rounds(12)
    told.session.publish(history[:-3])
    offer = told.session.standing.offer
    told.session.request(messages=history[:-2])
    assert told.session.glanced
    told.summarise(offer)
    assert told.carrier.outbox is not None
    assert told.carrier.outbox.has_news
    told.session.publish(history[:-1])
    assert told.session.has_ready
    assert told.session.request(messages=history)["messages"] is not history


def test_answers_that_say_nothing_new_do_not_reach_the_next_turn() -> None:
    told = Told(Policy(threshold_tokens=500, hard_cap_tokens=1_000, preserve_recent_turns=1, min_span_tokens=1))
    history = rounds(12)
    told.session.publish(history)
    assert told.session.view(history) is not history
    outbox = told.carrier.outbox
    assert outbox is not None
    outbox.receive(wire.Answer(known=True))
    outbox.receive(wire.Answer(known=True, records=tuple(outbox.records())))
    assert not outbox.has_news
    outbox.receive(wire.Answer(known=True, overrides=b'{"mode": "shadow"}'))
    outbox.receive(wire.Answer(known=True, overrides=b'{"mode": "shadow"}'))
    assert told.session.view(history) is history
    assert told.session.mode == "shadow"
