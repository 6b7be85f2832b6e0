"""Compaction after compaction: bounded, nothing of the first forgotten, across restarts, stubs, system messages."""

import json
from typing import Any

import pytest

from foldahead.core.conversation import Conversation, Moment
from foldahead.core.dialects import get_dialect
from foldahead.core.policy import Policy
from foldahead.testing import LocalSession
from tests.fleet import Process, Shelf, copied, summary_for
from tests.histories import answers, assistant, call, calls, result, says, system, user
from tests.judging import faults_of

POLICY = Policy(
    threshold_tokens=2_000, hard_cap_tokens=9_000, preserve_recent_turns=2, min_span_tokens=1, target_ratio=1.0
)
ELIDING = Policy(
    threshold_tokens=3_000,
    hard_cap_tokens=9_000,
    preserve_recent_turns=2,
    min_span_tokens=1,
    age_observations=True,
    age_min_chars=200,
    age_reclaim_min=3_000,
)
GENERATIONS = 20


def part(number: int, dialect: str = "anthropic") -> list[Any]:
    """A wish with a rule in it, and the tool rounds that it takes."""
    rule = f"Rule {number}: never touch config/prod{number}.yaml."
    history: list[Any] = [says(rule)]
    for at in range(4):
        name, body = f"p{number}_{at}", f"r{number}_{at} " + "x" * 1_400
        if dialect == "anthropic":
            history += [assistant(f"Step {at}.", call(name, path=f"{name}.py")), user(result(name, body))]
        else:
            history += [calls(name, said=f"Step {at}."), answers(name, body)]
    return [*history, says("Done.", "assistant")]


def echo(prompt: str) -> str:
    """A model that keeps every rule it is shown and drops all else."""
    rules = dict.fromkeys(word for word in prompt.split() if word.startswith("config/prod"))
    return "The user's rules, in their words: never touch " + " ".join(rules)


def play(session: LocalSession, history: list[Any], more: list[Any], dialect: str) -> int:
    """The turns of one part; how many of them swapped."""
    swaps = 0
    for message in more:
        history.append(message)
        if message["role"] != "assistant":
            view = session.view(history)
            assert faults_of(view, dialect) == []
            swaps += session.plan.outcome == "swapped"
            session.publish(history)
    return swaps


@pytest.mark.parametrize("dialect", ["anthropic", "openai", "openai-strict"])
@pytest.mark.parametrize("summarize", [None, echo], ids=["extract", "text"])
def test_twenty_compactions_stay_bounded_and_keep_what_was_said_first(dialect: str, summarize: Any) -> None:
    session, history, swaps = LocalSession(POLICY, dialect, summarize), list[Any](), 0
    sizes: list[int] = []
    number = 0
    while swaps < GENERATIONS:
        swaps += play(session, history, part(number, dialect), dialect)
        sizes.append(len(json.dumps(session.view([*history, says("Go on.")]))))
        number += 1
        assert number < 4 * GENERATIONS, "swaps have ceased"
    assert max(sizes[len(sizes) // 2 :]) < 1.5 * max(sizes[: len(sizes) // 2])
    shown = json.dumps(session.view(history))
    assert "config/prod0.yaml" in shown
    assert "config/prod1.yaml" in shown


def generations(process: Process, history: list[Any], numbers: range) -> None:
    """So many parts, each summarised and swapped in."""
    for number in numbers:
        for message in part(number):
            history.append(message)
            if message["role"] != "assistant":
                process.view(history, Moment())
                request = process.ask(history)
                if request is not None:
                    process.conversation.add_ready(summary_for(history, request, "anthropic", 20))
        process.exchange()


def test_three_in_a_row_with_a_restart_between_go_on_from_where_they_were() -> None:
    shelf, history = Shelf(), list[Any]()
    ends: list[int] = []
    for number in range(3):
        process = Process("anthropic", POLICY, shelf)
        process.conversation.observe(copied(history))
        process.exchange()
        generations(process, history, range(4 * number, 4 * number + 4))
        ends.append(process.conversation.active.end)
    assert ends == sorted(set(ends))
    assert ends[0] > 0


def test_resume_from_the_originals_finds_the_latest_generation() -> None:
    shelf, history = Shelf(), list[Any]()
    process = Process("anthropic", POLICY, shelf)
    generations(process, history, range(6))
    spans = [record for record in shelf.all() if record.stands_for_span]
    assert len(spans) >= 3
    later = Conversation(get_dialect("anthropic"), POLICY)
    later.observe(copied(history))
    later.replace_records(shelf.all())
    assert later.active.end == max(span.end for span in spans)
    assert json.dumps(later.shown(copied(history))) == json.dumps(process.conversation.shown(history))


def tool_change(name: str) -> dict[str, Any]:
    """A system message that gives one tool and takes another away."""
    definition = {"name": name, "description": "Looks things up.", "input_schema": {"type": "object"}}
    return {
        "role": "system",
        "content": [
            {"type": "text", "text": f"From now on there is {name}."},
            {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}},
            {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "read_file"}},
        ],
    }


def test_tool_additions_and_removals_of_a_span_are_carried_through_every_generation() -> None:
    session, history, swaps = LocalSession(POLICY, summarize=echo), list[Any](), 0
    changes = [tool_change("look_up"), tool_change("ask_around")]
    for number in range(8):
        more = part(number)
        if number < 2:
            more.insert(1, changes[number])
        swaps += play(session, history, more, "anthropic")
    view = session.view(history)
    assert swaps >= 3
    assert [message for message in view if message in changes] == changes
    assert faults_of(view, "anthropic") == []


def test_a_system_message_stands_where_the_provider_takes_it_ahead_of_the_tail() -> None:
    session, history = LocalSession(POLICY, summarize=echo), list[Any]()
    more = part(0)
    more.insert(1, system("In French, please."))
    play(session, history, [*more, *part(1)], "anthropic")
    view = session.view(history)
    at = view.index(system("In French, please."))
    assert view[at - 1]["role"] == "user"
    assert view[at + 1]["role"] == "assistant"


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
def test_stubs_of_a_span_go_with_it_and_later_ones_stay(dialect: str) -> None:
    session, history, outcomes = LocalSession(ELIDING, dialect, echo), list[Any](), set[str]()
    for number in range(30):
        for message in part(number, dialect):
            history.append(message)
            if message["role"] != "assistant":
                view = session.view(history)
                outcomes.add(session.plan.outcome)
                assert faults_of(view, dialect) == []
                session.publish(history)
    assert {"elided", "swapped"} <= outcomes
    assert "config/prod0.yaml" in json.dumps(session.view(history))


def test_a_summary_is_made_of_the_originals_not_of_stubs() -> None:
    prompts: list[str] = []

    def note(prompt: str) -> str:
        prompts.append(prompt)
        return "The work goes on."

    session, history = LocalSession(ELIDING, "anthropic", note), list[Any]()
    for number in range(30):
        play(session, history, part(number), "anthropic")
    assert any(record.kind == "elided" for record in session.records)
    shown = "\n".join(prompts)
    stubbed = {int(place.partition("/")[0]) for record in session.records for place in record.stubs or {}}
    first = session.spans[-1].end
    bodies = [history[at]["content"][0]["content"].split()[0] for at in stubbed if at < first]
    assert bodies
    assert all(body in shown for body in bodies)
