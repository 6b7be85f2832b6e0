"""The bundled demo session is a valid Anthropic conversation, long enough to be compacted in time."""

import json
import re
from importlib import resources
from itertools import pairwise
from typing import Any

import pytest

BYTES_PER_TOKEN = 3.5
THRESHOLD_TOKENS = 30_000
TAIL_TURNS = 5
MAX_FILE_BYTES = 400_000

Message = dict[str, Any]
Block = dict[str, Any]


@pytest.fixture(scope="module")
def raw() -> str:
    """The file as it is shipped."""
    return resources.files("foldahead_worker.demo").joinpath("session.json").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def session(raw: str) -> dict[str, Any]:
    """The decoded file."""
    return json.loads(raw)


@pytest.fixture(scope="module")
def messages(session: dict[str, Any]) -> list[Message]:
    """The conversation."""
    return session["messages"]


def blocks(message: Message) -> list[Block]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def of_type(message: Message, kind: str) -> list[Block]:
    return [block for block in blocks(message) if block["type"] == kind]


def block_text(block: Block) -> str:
    if block["type"] == "text":
        return block["text"]
    if block["type"] == "tool_use":
        return block["name"] + json.dumps(block["input"], ensure_ascii=False)
    return block["content"]


def tokens(message: Message) -> float:
    return sum(len(block_text(block).encode()) for block in blocks(message)) / BYTES_PER_TOKEN


def turn_starts(messages: list[Message]) -> list[int]:
    return [index for index, message in enumerate(messages) if message["role"] == "assistant"]


def pending_tokens(messages: list[Message], end: int) -> float:
    """Tokens ahead of the last turns of `messages[:end]`."""
    starts = turn_starts(messages[:end])
    cut = starts[-TAIL_TURNS] if len(starts) >= TAIL_TURNS else 0
    return sum(tokens(message) for message in messages[:cut])


def all_calls(messages: list[Message]) -> list[Block]:
    return [block for message in messages for block in of_type(message, "tool_use")]


def all_results(messages: list[Message]) -> list[Block]:
    return [block for message in messages for block in of_type(message, "tool_result")]


def user_words(messages: list[Message]) -> str:
    return "\n".join(block["text"] for item in messages if item["role"] == "user" for block in of_type(item, "text"))


def test_the_file_has_the_five_fields_of_a_demo_session(session: dict[str, Any]) -> None:
    assert set(session) == {"about", "dialect", "system", "tools", "messages"}
    assert session["dialect"] == "anthropic"


def test_the_file_stays_small_enough_to_ship(raw: str) -> None:
    assert len(raw.encode()) < MAX_FILE_BYTES


def test_the_first_message_is_the_users_and_the_last_is_the_agents_words(messages: list[Message]) -> None:
    assert messages[0]["role"] == "user"
    assert messages[-1]["role"] == "assistant"
    assert of_type(messages[-1], "tool_use") == []


def test_roles_alternate(messages: list[Message]) -> None:
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2)


def test_each_call_is_answered_in_the_very_next_message_and_nothing_else_is(messages: list[Message]) -> None:
    for before, after in pairwise(messages):
        called = [block["id"] for block in of_type(before, "tool_use")]
        answered = [block["tool_use_id"] for block in of_type(after, "tool_result")]
        assert answered == called


def test_results_stand_ahead_of_the_users_own_words(messages: list[Message]) -> None:
    for message in messages:
        kinds = [block["type"] for block in blocks(message)]
        if "tool_result" in kinds:
            assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result")


def test_call_ids_are_unique_and_numbered_in_order(messages: list[Message]) -> None:
    ids = [call["id"] for call in all_calls(messages)]
    assert ids == [f"toolu_demo_{number:03d}" for number in range(1, len(ids) + 1)]


def test_no_text_is_empty(messages: list[Message]) -> None:
    assert all(block_text(block).strip() for message in messages for block in blocks(message))


def test_every_call_names_a_declared_tool_and_only_its_parameters(session: dict[str, Any]) -> None:
    schemas = {tool["name"]: tool["input_schema"] for tool in session["tools"]}
    for call in all_calls(session["messages"]):
        schema = schemas[call["name"]]
        assert set(schema["required"]) <= set(call["input"]) <= set(schema["properties"])


def test_it_has_at_least_sixty_messages_and_forty_thousand_tokens(messages: list[Message]) -> None:
    assert len(messages) >= 60
    assert sum(map(tokens, messages)) >= 40_000


def test_the_threshold_is_passed_before_sixty_per_cent_of_the_messages(messages: list[Message]) -> None:
    assert pending_tokens(messages, len(messages) * 6 // 10) > THRESHOLD_TOKENS


def test_it_grows_steadily_with_a_few_large_turns(messages: list[Message]) -> None:
    starts = [*turn_starts(messages), len(messages)]
    turns = [sum(map(tokens, messages[begin:end])) for begin, end in pairwise(starts)]
    assert all(100 < turn < 8_000 for turn in turns)
    assert sorted(turns)[len(turns) // 2] < 2_500
    assert sum(turn > 2_500 for turn in turns) >= 3


def test_several_turns_make_parallel_calls(messages: list[Message]) -> None:
    assert sum(len(of_type(message, "tool_use")) >= 2 for message in messages) >= 5


def test_some_results_are_errors(messages: list[Message]) -> None:
    assert sum(result.get("is_error", False) for result in all_results(messages)) >= 4


def test_files_are_read_again_later(messages: list[Message]) -> None:
    read = [call["input"]["path"] for call in all_calls(messages) if call["name"] == "read_file"]
    assert len(read) - len(set(read)) >= 3


@pytest.mark.parametrize(
    "words", ["Never change config/production.toml", "load_orders", "Amounts are in cents, not euros"]
)
def test_the_user_corrects_the_agent_midway(messages: list[Message], words: str) -> None:
    middle = messages[len(messages) // 4 : len(messages) // 2]
    assert words in user_words(middle)


def test_the_later_of_two_batch_sizes_is_the_one_that_holds(messages: list[Message]) -> None:
    assert "batches of 500" in user_words(messages[:2])
    assert "batch size 200" in user_words(messages[len(messages) // 2 :])
    writes = [call["input"]["new"] for call in all_calls(messages) if call["name"] == "edit_file"]
    assert [found for text in writes for found in re.findall(r"DEFAULT_BATCH_SIZE = (\d+)", text)] == [
        "500",
        "200",
    ]


@pytest.mark.parametrize("fact", ["imp_20260314_7f3a", "8417", "NH-204033", "claims-2026-03-14.csv"])
def test_a_fact_of_the_first_turns_is_needed_in_the_last_ones(messages: list[Message], fact: str) -> None:
    early, late = messages[:20], messages[len(messages) * 7 // 10 :]
    assert any(fact in block_text(block) for message in early for block in blocks(message))
    assert any(fact in block_text(block) for message in late for block in blocks(message))


def test_it_names_no_path_of_the_machine_it_was_recorded_on(raw: str) -> None:
    assert re.findall(r"/(?:root|home|opt|work|usr)\b|pyenv|pytest-of-", raw) == []
