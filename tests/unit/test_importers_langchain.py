"""LangChain's dumps: what was sent is put together from them."""

import json
from pathlib import Path
from typing import Any

import pytest

from foldahead_worker.importers import BadMessage, ImportedSession, load
from tests.histories import answers, assistant, call, calls, result, says, text, user
from tests.judging import faults_of

CLAUDE = {"response_metadata": {"model_provider": "anthropic", "model_name": "claude-sonnet-5-5"}}
CALL = {"id": "c1", "name": "read_file", "args": {"path": "a.py"}, "type": "tool_call"}


def flat(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": kind, "content": content, **more}


def constructed(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", kind],
        "kwargs": {"content": content, **more},
    }


def nested(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": kind, "data": {"content": content, **more}}


def read(tmp_path: Path, messages: list[Any], as_lines: bool = False) -> ImportedSession:
    path = tmp_path / "file.json"
    path.write_text("\n".join(map(json.dumps, messages)) if as_lines else json.dumps(messages))
    (session,) = load(path).sessions
    return session


@pytest.mark.parametrize("as_lines", [False, True])
@pytest.mark.parametrize("dump", [flat, nested])
def test_messages_of_another_provider_become_openais(tmp_path: Path, dump: Any, as_lines: bool) -> None:
    messages = [
        dump("system", "Be brief."),
        dump("human", "Read it."),
        dump("ai", "", tool_calls=[CALL]),
        dump("tool", "found", tool_call_id="c1", name="read_file"),
        dump("ai", "Done.", tool_calls=[], usage_metadata={"input_tokens": 9, "output_tokens": 2}),
    ]
    session = read(tmp_path, messages, as_lines)
    assert session.messages == [
        says("Be brief.", "system"),
        says("Read it."),
        calls("c1", said=""),
        answers("c1"),
        says("Done.", "assistant"),
    ]
    assert (session.dialect, session.usages) == ("openai", ((4, {"prompt_tokens": 9, "completion_tokens": 2}),))


def test_messages_of_claudes_become_anthropics(tmp_path: Path) -> None:
    """Content of a stream holds pieces of calls: the calls that LangChain put together count."""
    said = [
        {"type": "text", "text": "I read.", "index": 0},
        {"type": "tool_use", "id": "c1", "name": "read_file", "input": "", "partial_json": "{", "index": 1},
    ]
    messages = [
        constructed("SystemMessage", "Be brief."),
        constructed("HumanMessage", "Read both."),
        constructed("AIMessageChunk", said, tool_calls=[CALL, {**CALL, "id": "c2"}], **CLAUDE),
        constructed("ToolMessage", "found", tool_call_id="c1"),
        constructed("ToolMessage", [{"type": "text", "text": "no"}], tool_call_id="c2", status="error"),
        constructed("AIMessage", "Done.", **CLAUDE),
        constructed("HumanMessage", ["Thanks.", {"type": "text", "text": "And?"}]),
    ]
    session = read(tmp_path, messages)
    assert session.messages == [
        says("Read both."),
        assistant("I read.", call("c1"), call("c2")),
        user(result("c1"), result("c2", [text("no")], is_error=True)),
        assistant("Done."),
        user("Thanks.", "And?"),
    ]
    assert (session.dialect, session.system, session.model) == ("anthropic", "Be brief.", "claude-sonnet-5-5")


def test_a_call_whose_arguments_are_no_json_is_one_too(tmp_path: Path) -> None:
    broken = {"id": "c1", "name": "read_file", "args": '{"path": ', "type": "invalid_tool_call"}
    messages = [flat("human", "x"), flat("ai", "", invalid_tool_calls=[broken]), flat("tool", "no", tool_call_id="c1")]
    for format_, arguments in (("openai", '{"path": '), ("anthropic", {"invalid": '{"path": '})):
        path = tmp_path / "file.json"
        path.write_text(json.dumps(messages))
        session = load(path, format_).sessions[0]
        assert faults_of(session.messages, format_) == []
        assert str(arguments) in str(session.messages[1])


def test_what_is_none_of_its_messages_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadMessage, match=r"messages\[1\]: an object with keys 'type', 'x'"):
        read(tmp_path, [flat("human", "x"), {"type": "wizard", "x": 1}])
