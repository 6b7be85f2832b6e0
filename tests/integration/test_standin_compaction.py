"""The compaction blocks of the stand-in, with the real SDK as its client."""

from typing import Any

import anthropic
import pytest

from foldahead_worker.standin import Options, Scripted, ToolCall, start_standin
from tests.standins import (
    BINDING_BETA,
    COMPACT_BETA,
    SUMMARIZE,
    TOOL,
    ask_opus,
    client_of,
    conversation,
    swapped,
    user,
)

pytest_plugins = ["tests.standin_fixtures"]


def test_a_compaction_gives_one_signed_block_and_bills_it_in_iterations_alone(standin, client):
    reply = ask_opus(client, conversation(standin, client, 2), compaction=SUMMARIZE)
    block = reply.content[0]
    assert (reply.stop_reason, len(reply.content), block.type) == ("compaction", 1, "compaction")
    assert "src/a1.py" in block.content
    assert block.signature
    assert block.encrypted_content
    assert block.tool_changes == []
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (0, 0)
    (iteration,) = reply.usage.iterations
    assert iteration.type == "compaction"
    assert iteration.output_tokens > 100
    call = standin.ledger("compaction")[-1]
    assert call.input_tokens == iteration.input_tokens > 0


def test_a_streamed_compaction_gives_the_same_block(standin, client):
    history = conversation(standin, client, 1)
    request: dict[str, Any] = {
        "model": "claude-opus-5-5",
        "max_tokens": 4000,
        "system": "Be brief.",
        "tools": [TOOL],
    }
    whole = ask_opus(client, history, compaction=SUMMARIZE).content[0]
    with client.beta.messages.stream(
        **request, messages=history, betas=[COMPACT_BETA, BINDING_BETA], compaction={"type": "summarize"}
    ) as stream:
        streamed = stream.get_final_message()
    assert streamed.stop_reason == "compaction"
    assert streamed.content[0].to_dict() == whole.to_dict()


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("content", "forged", anthropic.types.CompactionContentMismatchError),
        ("signature", "00", anthropic.types.CompactionSignatureInvalidError),
        ("encrypted_content", "standin1.e30=", anthropic.types.CompactionSignatureInvalidError),
        ("tool_changes", None, anthropic.types.CompactionToolChangesMismatchError),
    ],
)
def test_an_altered_block_is_refused_by_code(standin, client, field, value, error):
    view = swapped(client, conversation(standin, client, 1), 2)
    view[0]["content"][0][field] = value
    with pytest.raises(error):
        ask_opus(client, [*view, user("go on")])


def test_a_block_must_be_first_and_alone(standin, client):
    view = swapped(client, conversation(standin, client, 1), 2)
    with pytest.raises(anthropic.types.CompactionBlockMisplacedError):
        ask_opus(client, [user("before"), *view, user("go on")])
    with pytest.raises(anthropic.types.CompactionBlockAmbiguousError):
        ask_opus(client, [*view, user("go on"), *view, user("and on")])


def test_a_block_wants_its_beta_header_and_no_added_null(standin, client):
    view = [*swapped(client, conversation(standin, client, 1), 2), user("go on")]
    with pytest.raises(anthropic.BadRequestError, match="not one of the expected content block types"):
        ask_opus(client, view, betas=[])
    view[0]["content"][0]["citations"] = None
    with pytest.raises(anthropic.BadRequestError, match=r"citations: Extra inputs are not permitted"):
        ask_opus(client, view)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"betas": []}, f"requires anthropic-beta: {COMPACT_BETA}"),
        ({"stop_sequences": ["x"]}, "stop_sequences: cannot be combined"),
        ({"tool_choice": {"type": "any"}}, "tool_choice: 'any' and 'tool' cannot"),
        ({"context_management": {"edits": []}}, "context_management: cannot be combined"),
        ({"model": "claude-haiku-4-5"}, "compaction is not supported"),
    ],
)
def test_what_does_not_go_with_a_compaction_is_refused(client, more, said):
    with pytest.raises(anthropic.BadRequestError, match=said):
        ask_opus(client, [user("q")], compaction=SUMMARIZE, **more)


def test_an_open_call_cannot_be_compacted(standin, client):
    standin.script(Scripted(tool_calls=(ToolCall("read_file"),)))
    reply = ask_opus(client, [user("q")])
    with pytest.raises(anthropic.types.CompactionIncompleteTurnError):
        ask_opus(client, [user("q"), {"role": "assistant", "content": reply.content}], compaction=SUMMARIZE)


def test_nothing_cannot_be_compacted(client):
    with pytest.raises(anthropic.types.CompactionNothingToSummarizeError):
        ask_opus(client, [], compaction=SUMMARIZE)


def test_a_failed_compaction_gives_no_block_or_an_empty_one_and_is_billed(standin, client):
    for scripted, blocks, stop_reason in (
        (Scripted(kind="compaction", stop_reason="refusal"), 0, "refusal"),
        (Scripted(kind="compaction", text=""), 0, "end_turn"),
        (Scripted(kind="compaction", null_content=True), 1, "compaction"),
    ):
        standin.script(scripted)
        reply = ask_opus(client, [user("q")], compaction=SUMMARIZE)
        assert (len(reply.content), reply.stop_reason) == (blocks, stop_reason)
        assert all(block.content is None for block in reply.content)
        assert reply.usage.iterations[0].input_tokens > 0
    standin.script(Scripted(status=529, error_code="compaction_unavailable"))
    with pytest.raises(anthropic.types.CompactionUnavailableError):
        ask_opus(client, [user("q")], compaction=SUMMARIZE)


def test_a_block_with_null_content_is_skipped(client):
    null = {"role": "assistant", "content": [{"type": "compaction", "content": None}]}
    assert ask_opus(client, [null, user("q")]).stop_reason == "end_turn"


def test_a_changed_envelope_may_be_shown_as_a_refusal():
    with (
        start_standin(Options(changed_envelope="refuse")) as strict,
        client_of(strict) as made,
    ):
        view = [*swapped(made, [user("q")], 1), user("go on")]
        assert ask_opus(made, view).content
        with pytest.raises(anthropic.BadRequestError, match="other tools"):
            ask_opus(made, view, system="Be long.")


def test_tool_changes_of_the_span_are_carried_in_the_block(client):
    definition = {"name": "search", "input_schema": {"type": "object"}}
    added = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}
    removed = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "read_file"}}
    history = [user("q"), {"role": "system", "content": [added, removed]}]
    history.append({"role": "assistant", "content": "a"})
    block = ask_opus(client, history, compaction=SUMMARIZE).content[0]
    assert [change.type for change in block.tool_changes] == ["tool_removal", "tool_addition"]
