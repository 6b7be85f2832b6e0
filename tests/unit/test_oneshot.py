"""One compaction here and now: the second seed's contract, and shapes like those of the cases, in both dialects."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from foldahead.core.dialects import get_dialect
from foldahead.core.policy import Policy
from foldahead.core.record import decode_record, encode_record
from foldahead.core.replay import replay
from foldahead.oneshot import Compaction, compact
from foldahead.testing import ScriptedSummarizer
from tests.histories import (
    PIXEL,
    answers,
    assistant,
    call,
    calls,
    document,
    picture,
    result,
    rounds,
    says,
    server_call,
    server_result,
    system,
    text,
    thinking,
    user,
)
from tests.judging import faults_of

SMALL = Policy(threshold_tokens=200, hard_cap_tokens=80_000, preserve_recent_turns=2, min_span_tokens=1)
TALK = "The importer was made to stream; the tests are green."


def forced(
    history: list[Any], dialect: str = "anthropic", policy: Policy = SMALL, reused_ids: bool = False, **more: Any
) -> Compaction:
    """A forced compaction, held to everything that must hold of each."""
    before = json.dumps(history)
    compaction = compact(history, policy, dialect, force=True, **more)
    assert json.dumps(history) == before
    faults = faults_of(compaction.messages, dialect, reused_ids=reused_ids, unknown_blocks=True)
    assert len(faults) <= len(faults_of(history, dialect, reused_ids=reused_ids, unknown_blocks=True))
    assert faults == [] or compaction.outcome == "unchanged"
    records = [decode_record(encode_record(record)) for record in compaction.records]
    assert json.dumps(replay(history, records, get_dialect(dialect))) == json.dumps(compaction.messages)
    if compaction.outcome != "unchanged":
        assert compaction.tokens_after < compaction.tokens_before
    return compaction


# -- the contract --------------------------------------------------------------------------------------------------


def test_the_result_says_what_was_done() -> None:
    history = rounds(10)
    done = forced(history, summarize=ScriptedSummarizer(TALK))
    assert (done.outcome, done.reason, done.fallback, done.exhausted) == ("swapped", "", False, False)
    assert (done.cut_index, done.dropped) == (19, 19)
    assert done.messages[1:] == history[19:]
    assert TALK in done.summary
    assert done.messages[0] == user(done.summary)
    assert done.cache_key is not None


def test_without_a_summariser_the_summary_is_made_by_rules() -> None:
    done = forced(rounds(10))
    assert "model=extract" in done.summary
    assert not done.fallback


def test_below_the_threshold_nothing_is_called_and_nothing_is_done() -> None:
    summarize = ScriptedSummarizer(TALK)
    history = rounds(3)
    done = compact(history, Policy(), summarize=summarize)
    assert (done.outcome, done.reason, done.cut_index, done.dropped) == ("unchanged", "below_threshold", -1, 0)
    assert done.messages is history
    assert summarize.prompts == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ('<tool_calls>[{"name": "read_file", "arguments": {}}]</tool_calls>', "not_prose"),
        ('{"name": "read_file", "arguments": {}}', "not_prose"),
        ("I'm sorry, but I can't help with that.", "about_the_request"),
        ("Please provide the conversation that you want me to summarize.", "about_the_request"),
        ("word " * 20_000, "not_smaller"),
    ],
    ids=["empty", "blank", "markup", "json", "refusal", "question", "long"],
)
def test_an_answer_that_is_no_summary_leaves_the_conversation_as_it_was(answer: str, reason: str) -> None:
    summarize = ScriptedSummarizer(answer)
    history = rounds(10)
    done = forced(history, summarize=summarize)
    assert (done.outcome, done.reason) == ("unchanged", reason)
    assert done.messages is history
    assert len(summarize.prompts) == 2


def test_the_one_retry_is_tighter_and_taken_only_if_it_is_smaller_than_the_first_answer() -> None:
    long = "They worked on it. " * 2_000
    better = ScriptedSummarizer(long, TALK)
    assert forced(rounds(10), summarize=better).outcome == "swapped"
    assert better.prompts[1] != better.prompts[0]
    assert forced(rounds(10), summarize=ScriptedSummarizer("", TALK)).reason == "empty"


def test_a_summariser_that_fails_for_good_is_asked_once() -> None:
    class Forbidden(Exception):
        status_code = 403

    summarize = ScriptedSummarizer(Forbidden())
    done = forced(rounds(10), summarize=summarize)
    assert (done.outcome, done.reason) == ("unchanged", "adapter_error: Forbidden")
    assert len(summarize.prompts) == 1


def test_at_the_hard_cap_a_failed_summariser_means_a_fallback() -> None:
    class Forbidden(Exception):
        status_code = 401

    policy = Policy(threshold_tokens=200, hard_cap_tokens=900, preserve_recent_turns=1)
    done = compact(rounds(20), policy, summarize=ScriptedSummarizer(Forbidden()))
    assert (done.outcome, done.fallback) == ("swapped", True)
    assert "model=extract" in done.summary


def test_a_cancelled_compaction_asks_nobody() -> None:
    summarize = ScriptedSummarizer(TALK)
    done = compact(rounds(10), SMALL, summarize=summarize, force=True, cancelled=lambda: True)
    assert (done.outcome, done.reason, summarize.prompts) == ("unchanged", "cancelled", [])


@pytest.mark.parametrize("mode", ["off", "shadow"])
def test_in_a_mode_other_than_on_nobody_is_asked_and_nothing_changes(mode: Any) -> None:
    aged = Policy(threshold_tokens=200, age_observations=True, age_min_chars=10, age_reclaim_min=10, mode=mode)
    asked = ScriptedSummarizer(TALK)
    history = rounds(20)
    done = compact(history, aged, summarize=asked, force=True)
    assert (done.outcome, done.reason, done.records, asked.prompts) == ("unchanged", mode, (), [])
    assert done.messages is history


def test_counts_are_those_of_the_invocations_counter() -> None:
    done = compact(rounds(20), target_tokens=30, counter=len)
    assert (done.tokens_before, done.tokens_after) == (43, len(done.messages))
    assert not done.exhausted


def test_mends_are_among_the_records_of_what_was_done() -> None:
    history = [*rounds(10)[:-1], user(result("gone"), "And the tests?")]
    done = forced(history)
    assert done.messages[-1] == user("And the tests?")
    assert len(done.repairs) == 1


def test_what_is_mended_within_the_span_is_in_no_record() -> None:
    done = forced([user("Please fix it.", ""), *rounds(10)[1:]])
    assert done.repairs == ("messages[0].content[1]: empty text",)
    assert "repaired" not in {record.kind for record in done.records}


def test_compacting_a_view_again_settles() -> None:
    done = forced(rounds(20))
    again = forced(done.messages)
    assert again.outcome == "unchanged" or again.tokens_after < done.tokens_after


# -- shapes --------------------------------------------------------------------------------------------------------


def padded(*middle: Any, dialect: str = "anthropic", before: int = 6, after: int = 0) -> list[Any]:
    """A conversation with something odd in it: tool rounds, the odd messages, and a tail."""
    openai = dialect != "anthropic"
    tail = [assistant("Good."), user("Go on.")]
    if openai:
        tail = [says("Good.", "assistant"), says("Go on.")]
    more = rounds(after, dialect=dialect)[1 : 2 * after + 1]
    return [*rounds(before, dialect=dialect)[:-2], *middle, *more, *tail]


SHAPES: dict[str, Callable[[], tuple[str, list[Any], int]]] = {
    "a picture in a result": lambda: (
        "anthropic",
        padded(assistant(call("p")), user(result("p", [text("seen"), picture()])), after=4),
        0,
    ),
    "a picture of a user in OpenAI": lambda: (
        "openai",
        padded(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                ],
            },
            says("A login page.", "assistant"),
            dialect="openai",
            after=4,
        ),
        0,
    ),
    "documents": lambda: (
        "anthropic",
        padded(user(document("the contract"), "read it"), assistant("Read."), after=4),
        0,
    ),
    "a dead call among parallel ones": lambda: (
        "anthropic",
        padded(assistant(call("x"), call("y")), user(result("x"), "stop"), assistant("Stopped."), user("Well.")),
        1,
    ),
    "dead parallel calls in OpenAI": lambda: (
        "openai",
        padded(calls("x", "y"), says("stop"), dialect="openai"),
        2,
    ),
    "orphan results in OpenAI": lambda: (
        "openai",
        padded(answers("gone"), answers("lost"), dialect="openai"),
        2,
    ),
    "an orphan result right at the end": lambda: ("openai", [*padded(dialect="openai"), answers("gone")], 1),
    "a result behind a user's message": lambda: (
        "anthropic",
        padded(assistant(call("x")), user("wait"), user(result("x"))),
        1,
    ),
    "a tool message behind a user's": lambda: (
        "openai",
        padded(calls("x"), says("wait"), answers("x"), dialect="openai"),
        1,
    ),
    "text ahead of a result": lambda: ("anthropic", padded(assistant(call("x")), user("here", result("x"))), 1),
    "a result one turn too late": lambda: (
        "anthropic",
        padded(assistant(call("x")), user("wait"), assistant("I wait."), user(result("x"))),
        2,
    ),
    "empty messages": lambda: ("anthropic", padded(user(""), assistant("ok"), user("a", "")), 2),
    "an empty assistant message in OpenAI": lambda: (
        "openai",
        padded({"role": "assistant", "content": ""}, says("hello?"), dialect="openai"),
        1,
    ),
    "system messages midway": lambda: (
        "anthropic",
        padded(user("hm"), system("In French."), assistant("Oui."), user("bien"), system("In German."), after=4),
        0,
    ),
    "system messages midway in OpenAI": lambda: (
        "openai",
        padded(says("In French.", "system"), says("hm"), says("Oui.", "assistant"), dialect="openai", after=4),
        0,
    ),
    "a server tool across the results of others": lambda: (
        "anthropic",
        padded(assistant(server_call("s"), call("x")), user(result("x")), assistant(server_result("s"), "found")),
        0,
    ),
    "a server tool that never came back": lambda: (
        "anthropic",
        padded(assistant(server_call("s"), "searching"), user("never mind")),
        1,
    ),
    "redacted thinking": lambda: (
        "anthropic",
        padded(assistant({"type": "redacted_thinking", "data": "eHg="}, "So."), user("ok"), before=8),
        0,
    ),
    "users in a row": lambda: ("anthropic", padded(user("one"), user("two"), user("three"), after=4), 0),
    "an unknown block in the tail": lambda: ("anthropic", padded(assistant("x", {"type": "hologram", "z": 1})), 0),
}


@pytest.mark.parametrize("shape", SHAPES, ids=list(SHAPES))
@pytest.mark.parametrize("turns", [0, 1, 2, 4])
def test_a_shape_is_compacted_valid_with_its_faults_reported(shape: str, turns: int) -> None:
    dialect, history, faulty = SHAPES[shape]()
    policy = Policy(threshold_tokens=200, preserve_recent_turns=turns, min_span_tokens=1)
    done = forced(history, dialect, policy)
    assert done.outcome == "swapped"
    assert len(done.repairs) == faulty


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
def test_ids_used_again_in_every_round_are_no_obstacle(dialect: str) -> None:
    names = {f'"c{at}"' for at in range(10)}
    text_of = json.dumps(rounds(10, dialect=dialect))
    for name in names:
        text_of = text_of.replace(name, '"bash0"')
    assert forced(json.loads(text_of), dialect, reused_ids=True).outcome == "swapped"


def test_one_id_twice_in_a_turn_is_reported_and_left() -> None:
    twice = [calls("x", "x"), answers("x"), answers("x")]
    done = forced(
        [*rounds(8, dialect="openai")[:-2], *twice, says("ok", "assistant"), says("on")], "openai", reused_ids=True
    )
    assert done.outcome == "swapped"
    assert done.repairs[0].endswith("left as it is")


def test_a_history_that_opens_with_the_assistant_opens_with_the_user_afterwards() -> None:
    history = rounds(10)[1:]
    assert faults_of(history, "anthropic") != []
    assert forced(history).outcome == "swapped"


def test_no_tail_at_all_leaves_the_last_user_message() -> None:
    done = forced(rounds(10), policy=Policy(threshold_tokens=200, preserve_recent_turns=0, min_span_tokens=1))
    assert done.messages[0] == user("And the tests?")
    assert len(done.messages) == 2


def test_a_large_message_that_stays_takes_no_room_from_what_goes() -> None:
    wishes = " ".join(f"Never do thing {at}." for at in range(2_000))
    history = [user(wishes), *rounds(8)[1:-2], assistant("Done.")]
    assert forced(history).outcome == "swapped"


def test_a_tail_of_everything_leaves_nothing_to_compact() -> None:
    policy = Policy(threshold_tokens=200, preserve_recent_turns=50, preserve_recent_tokens=10**6)
    done = forced(rounds(4), policy=policy)
    assert (done.outcome, done.reason) == ("unchanged", "nothing_to_compact")


def test_a_huge_tail_is_exhausted_when_the_window_is_known() -> None:
    policy = Policy(threshold_tokens=200, window_tokens=50_000, preserve_recent_turns=1, min_span_tokens=1)
    history = [*rounds(6)[:-1], user("x" * 400_000)]
    assert forced(history, policy=policy).exhausted
    assert not forced(rounds(6), policy=policy).exhausted


@pytest.mark.parametrize(("model", "kept"), [("claude-haiku-4-5", True), ("claude-sonnet-5-5", False)])
def test_thinking_in_the_tail_follows_the_agents_model(model: str, kept: bool) -> None:
    history = [*rounds(8)[:-2], assistant(thinking(), "Done."), user("Go on.")]
    done = forced(history, model=model)
    assert (done.messages[-2] == history[-2]) is kept


def test_an_open_turn_with_thinking_is_not_torn_apart() -> None:
    history = [*rounds(8), assistant(thinking(), call("t")), user(result("t"))]
    done = forced(history)
    assert (done.outcome, done.reason) == ("unchanged", "open_thinking_turn")


def test_a_strict_provider_is_given_roles_that_alternate() -> None:
    done = forced(rounds(10, dialect="openai"), "openai-strict")
    roles = [message["role"] for message in done.messages]
    assert roles[0] == "user"
    assert all(pair not in (("user", "user"), ("assistant", "assistant")) for pair in pairwise(roles))


def test_long_arguments_of_kept_turns_are_never_cut() -> None:
    wide = assistant("Writing.", call("w", name="write_file", path="a", content="y" * 30_000))
    history = [*rounds(8)[:-2], wide, user(result("w")), assistant("Written."), user("Thanks.")]
    done = forced(history, policy=Policy(threshold_tokens=200, preserve_recent_turns=2, min_span_tokens=1))
    assert wide in done.messages
