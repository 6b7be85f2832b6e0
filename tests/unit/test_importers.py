"""The importers: what was sent, out of the files that people's agents leave behind."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldahead_worker.importers import (
    BadMessage,
    FileRefused,
    ImportResult,
    NotJson,
    SessionChoice,
    UnknownFormat,
    UnreadableFile,
    load,
    pick,
)

Message = dict[str, Any]

ASK: Message = {"role": "user", "content": "Please fix the importer."}
ANSWER: Message = {"role": "assistant", "content": "Done."}


def text(words: str) -> Message:
    return {"type": "text", "text": words}


def call(call_id: str) -> Message:
    return {"type": "tool_use", "id": call_id, "name": "Read", "input": {"path": call_id}}


def result(call_id: str, content: Any = "ok") -> Message:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def openai_call(call_id: str) -> Message:
    return {"id": call_id, "type": "function", "function": {"name": "read", "arguments": "{}"}}


class Log:
    """Builds a Claude Code log line by line; each line hangs on the one before it unless told otherwise."""

    def __init__(self, session: str = "s1", **fields: Any) -> None:
        self.lines: list[Message] = []
        self._fields = {"sessionId": session, "isSidechain": False, **fields}

    def line(self, kind: str, **fields: Any) -> Log:
        above = self.lines[-1]["uuid"] if self.lines else None
        uuid = f"{self._fields['sessionId']}-{self._fields.get('agentId', '')}-{len(self.lines)}"
        line = {"type": kind, "uuid": uuid, "parentUuid": above, **self._fields}
        self.lines.append(line | fields)
        return self

    def user(self, content: Any, **fields: Any) -> Log:
        return self.line("user", message={"role": "user", "content": content}, **fields)

    def assistant(self, message_id: str, *blocks: Message, usage: Message | None = None, **fields: Any) -> Log:
        message = {"id": message_id, "role": "assistant", "model": "claude-x", "content": list(blocks)}
        return self.line("assistant", message=message | ({"usage": usage} if usage else {}), **fields)


def written(tmp_path: Path, content: Any, name: str = "file.json") -> Path:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, Log):
        path.write_text("\n".join(json.dumps(line) for line in content.lines))
    else:
        path.write_text(json.dumps(content))
    return path


def lines(*values: Any) -> bytes:
    return "\n".join(value if isinstance(value, str) else json.dumps(value) for value in values).encode()


def messages_of(result_: ImportResult) -> list[Message]:
    (session,) = result_.sessions
    return session.messages


class TestClaudeCode:
    def test_an_assistant_message_spread_over_lines_is_put_together(self, tmp_path: Path) -> None:
        log = Log().user("hi").assistant("m1", text("a")).assistant("m1", call("c1")).user([result("c1")])
        assert messages_of(load(written(tmp_path, log))) == [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [text("a"), call("c1")]},
            {"role": "user", "content": [result("c1")]},
        ]

    def test_results_that_stand_between_the_lines_of_a_message_follow_it_as_one(self, tmp_path: Path) -> None:
        log = Log().user("hi").assistant("m1", call("c1")).user([result("c1")])
        log.assistant("m1", call("c2")).user([result("c2")]).assistant("m2", text("b"))
        assert messages_of(load(written(tmp_path, log)))[1:3] == [
            {"role": "assistant", "content": [call("c1"), call("c2")]},
            {"role": "user", "content": [result("c1"), result("c2")]},
        ]

    def test_what_the_user_said_between_two_results_follows_them(self, tmp_path: Path) -> None:
        log = Log().user("hi").assistant("m1", call("c1"), call("c2"))
        log.user([result("c1")]).user("wait").user([result("c2"), text("and this")])
        assert messages_of(load(written(tmp_path, log)))[2:] == [
            {"role": "user", "content": [result("c1"), result("c2"), text("and this")]},
            {"role": "user", "content": "wait"},
        ]

    def test_a_call_id_used_again_is_answered_where_it_was_used_last(self, tmp_path: Path) -> None:
        log = Log().user("hi").assistant("m1", call("c")).user([result("c", "first")])
        log.assistant("m2", call("c")).user([result("c", "second")])
        contents = [message["content"] for message in messages_of(load(written(tmp_path, log)))]
        assert contents[2] == [result("c", "first")]
        assert contents[4] == [result("c", "second")]

    def test_the_providers_fields_of_an_answer_are_not_sent_back(self, tmp_path: Path) -> None:
        log = Log().user("hi").assistant("m1", text("a"), usage={"input_tokens": 3})
        assert set(messages_of(load(written(tmp_path, log)))[1]) == {"role", "content"}

    def test_usage_is_that_of_a_messages_last_line(self, tmp_path: Path) -> None:
        log = Log().user("hi").assistant("m1", text("a"), usage={"input_tokens": 9, "output_tokens": 1})
        log.assistant("m1", call("c"), usage={"input_tokens": 9, "output_tokens": 40}).user([result("c")])
        log.assistant("m2", text("b"), usage={"input_tokens": 0, "output_tokens": 0})
        session = load(written(tmp_path, log)).sessions[0]
        assert session.usages == ((1, {"input_tokens": 9, "output_tokens": 40}),)

    def test_lines_that_are_no_messages_are_left_out_and_counted_in_one_note(self, tmp_path: Path) -> None:
        log = Log().user("hi").line("progress").line("progress").line("system", subtype="turn_duration")
        log.assistant("m1", text("a"))
        result_ = load(written(tmp_path, log))
        assert len(messages_of(result_)) == 2
        assert result_.notes == ("lines that hold no message passed over: 2 progress, 1 system",)

    def test_a_meta_line_was_sent_and_stays(self, tmp_path: Path) -> None:
        log = Log().user("<command-name>/init</command-name>").user([text("Analyze this codebase")], isMeta=True)
        assert len(messages_of(load(written(tmp_path, log)))) == 2

    def test_the_conversation_goes_on_across_a_compaction_of_its_own(self, tmp_path: Path) -> None:
        log = Log().user("hi").assistant("m1", text("a"))
        log.line("system", subtype="compact_boundary", parentUuid=None, logicalParentUuid="s1--1")
        log.user("This session is being continued", isCompactSummary=True).assistant("m2", text("b"))
        session = load(written(tmp_path, log)).sessions[0]
        assert [message["role"] for message in session.messages] == ["user", "assistant", "user", "assistant"]
        assert session.restarts == (2,)

    def test_a_sidechain_is_a_session_of_its_own_with_a_parent(self, tmp_path: Path) -> None:
        main = Log().user("hi").assistant("m1", call("task"))
        side = Log(isSidechain=True, agentId="a7").user("explore").assistant("m9", text("found"))
        main.lines += side.lines
        main.user([result("task", "found")])
        result_ = load(written(tmp_path, main))
        assert [(s.name, s.parent, len(s.messages)) for s in result_.sessions] == [
            ("s1", None, 3),
            ("s1/a7", "s1", 2),
        ]

    def test_two_sidechains_without_an_agent_id_are_told_apart_by_their_roots(self, tmp_path: Path) -> None:
        log = Log(isSidechain=True).user("one").user("two", parentUuid=None)
        log.assistant("m1", text("for one"), parentUuid="s1--0").assistant("m2", text("for two"), parentUuid="s1--1")
        sessions = load(written(tmp_path, log)).sessions
        assert [[m["content"] for m in s.messages] for s in sessions] == [
            ["one", [text("for one")]],
            ["two", [text("for two")]],
        ]

    def test_several_sessions_in_a_file_are_kept_apart(self, tmp_path: Path) -> None:
        log = Log("s1").user("hi").assistant("m1", text("a"))
        log.lines += Log("s2").user("other").lines
        assert [s.name for s in load(written(tmp_path, log)).sessions] == ["s1", "s2"]

    def test_a_session_resumed_under_a_new_id_goes_on_in_the_old_one(self, tmp_path: Path) -> None:
        log = Log("s1").user("hi").assistant("m1", text("a"))
        log.user("go on", sessionId="s2").assistant("m2", text("b"), sessionId="s2")
        (session,) = load(written(tmp_path, log)).sessions
        assert (session.name, len(session.messages)) == ("s1", 4)

    def test_a_line_logged_twice_counts_once(self, tmp_path: Path) -> None:
        log = Log().user("hi").assistant("m1", text("a"))
        log.lines += log.lines[:]
        assert len(messages_of(load(written(tmp_path, log)))) == 2

    def test_other_words_under_a_uuid_used_before_are_another_message(self, tmp_path: Path) -> None:
        log = Log(uuid="x").user("hi").assistant("m1", text("a")).user("go on")
        assert len(messages_of(load(written(tmp_path, log)))) == 3

    def test_a_branch_that_the_user_went_back_on_was_not_sent_later(self, tmp_path: Path) -> None:
        log = Log().user("hi").assistant("m1", text("a")).user("wrong way").assistant("m2", text("b"))
        log.user("right way", parentUuid="s1--1").assistant("m3", text("c"))
        result_ = load(written(tmp_path, log))
        assert [m["content"] for m in messages_of(result_)] == ["hi", [text("a")], "right way", [text("c")]]
        assert result_.notes == ("line 3: 2 messages of a branch that the user went back on, passed over",)

    def test_parallel_results_off_the_main_line_of_parents_stay(self, tmp_path: Path) -> None:
        log = Log().user("hi").assistant("m1", call("c1")).assistant("m1", call("c2"))
        log.user([result("c2")], parentUuid="s1--2").user([result("c1")], parentUuid="s1--1")
        log.assistant("m2", text("b"), parentUuid="s1--4").user("next")
        assert [len(m["content"]) for m in messages_of(load(written(tmp_path, log)))] == [2, 2, 2, 1, 4]

    def test_an_error_shown_as_a_message_was_never_sent(self, tmp_path: Path) -> None:
        log = Log().user("hi").assistant("m1", text("API Error: 401"), isApiErrorMessage=True)
        log.assistant("m2", text("a"))
        result_ = load(written(tmp_path, log))
        assert [m["content"] for m in messages_of(result_)] == ["hi", [text("a")]]
        assert "line 2" in result_.notes[0]

    def test_an_unanswered_last_call_stays_open(self, tmp_path: Path) -> None:
        log = Log().user("hi").assistant("m1", call("c1"))
        assert messages_of(load(written(tmp_path, log)))[-1]["content"] == [call("c1")]

    def test_empty_messages_and_results_stay_as_they_were(self, tmp_path: Path) -> None:
        log = Log().user([]).assistant("m1", text(""), call("c")).user([result("c", "")])
        assert [m["content"] for m in messages_of(load(written(tmp_path, log)))] == [
            [],
            [text(""), call("c")],
            [result("c", "")],
        ]

    def test_broken_lines_are_named_and_passed_over(self, tmp_path: Path) -> None:
        good = Log().user("hi").assistant("m1", text("a")).lines
        path = written(tmp_path, lines(good[0], "{not json", {"type": "user", "message": 5}, good[1], '{"type": "us'))
        result_ = load(path)
        assert len(messages_of(result_)) == 2
        assert [note.split(":")[0] for note in result_.notes] == ["line 2", "line 5", "line 3"]

    def test_a_log_of_one_line_is_a_log(self, tmp_path: Path) -> None:
        assert messages_of(load(written(tmp_path, Log().user("hi")))) == [{"role": "user", "content": "hi"}]

    def test_a_log_without_messages_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UnknownFormat, match="without a user or assistant message"):
            load(written(tmp_path, Log().line("progress").line("system")))

    def test_a_log_cannot_be_read_as_openai(self, tmp_path: Path) -> None:
        with pytest.raises(UnknownFormat, match="Claude Code log holds anthropic messages"):
            load(written(tmp_path, Log().user("hi")), "openai")


class TestLists:
    def test_a_list_of_messages_is_taken_as_it_is(self, tmp_path: Path) -> None:
        messages = [
            ASK,
            {"role": "assistant", "content": [call("c")], "odd": 1},
            {"role": "user", "content": []},
        ]
        (session,) = load(written(tmp_path, messages, "talk.json")).sessions
        assert (session.name, session.dialect, session.messages) == ("talk", "anthropic", messages)

    def test_an_anthropic_request_brings_its_system_tools_and_model(self, tmp_path: Path) -> None:
        tools = [{"name": "Read", "input_schema": {}}]
        body = {"model": "claude-x", "system": "be brief", "tools": tools, "messages": [ASK], "max_tokens": 5}
        (session,) = load(written(tmp_path, body)).sessions
        assert (session.system, session.tools, session.model) == ("be brief", tools, "claude-x")

    @pytest.mark.parametrize(
        ("body", "dialect"),
        [
            ({"messages": [ASK, {"role": "assistant", "tool_calls": [openai_call("c")]}]}, "openai"),
            ({"messages": [{"role": "system", "content": "x"}, ASK]}, "openai"),
            ({"messages": [ASK, {"role": "assistant", "content": [call("c")]}]}, "anthropic"),
            ({"messages": [ASK], "model": "claude-x"}, "anthropic"),
            ({"messages": [ASK], "model": "gpt-x"}, "openai"),
            ({"messages": [ASK], "format": "openai"}, "openai"),
            ({"messages": [ASK], "tools": [{"type": "function", "function": {"name": "f"}}]}, "openai"),
            (
                {
                    "messages": [
                        {"role": "system", "content": "x"},
                        {"role": "assistant", "content": [call("c")]},
                    ]
                },
                "anthropic",
            ),
        ],
    )
    def test_the_dialect_is_what_the_messages_look_like(self, tmp_path: Path, body: Message, dialect: str) -> None:
        assert load(written(tmp_path, body)).sessions[0].dialect == dialect

    def test_the_callers_format_wins_over_the_files(self, tmp_path: Path) -> None:
        path = written(tmp_path, {"format": "openai", "messages": [ASK]})
        assert load(path, "anthropic").sessions[0].dialect == "anthropic"

    def test_a_list_that_could_be_either_is_said_to_be(self, tmp_path: Path) -> None:
        result_ = load(written(tmp_path, [ASK, ANSWER]))
        assert "read as anthropic" in result_.notes[0]

    def test_a_request_that_play_wrote_can_be_read_again(self, tmp_path: Path) -> None:
        out = {"dialect": "openai", "session": "x", "turn": 2, "request": {"messages": [ASK, ANSWER]}}
        (session,) = load(written(tmp_path, out)).sessions
        assert (session.dialect, session.messages) == ("openai", [ASK, ANSWER])

    def test_json_lines_of_messages_are_one_conversation(self, tmp_path: Path) -> None:
        result_ = load(written(tmp_path, lines(ASK, 5, {"content": "no role"}, ANSWER, '{"role": "us')))
        assert messages_of(result_) == [ASK, ANSWER]
        assert [note[:6] for note in result_.notes[:3]] == ["line 5", "line 2", "line 3"]

    def test_a_line_separator_inside_a_text_does_not_end_the_line(self, tmp_path: Path) -> None:
        ask = {"role": "user", "content": "a\u2028b\x85c"}
        content = "\n".join(json.dumps(value, ensure_ascii=False) for value in (ask, ANSWER)).encode()
        assert messages_of(load(written(tmp_path, content))) == [ask, ANSWER]

    @pytest.mark.parametrize(
        ("messages", "where"),
        [
            ([ASK, 5], r"messages\[1\]: a number; expected a message"),
            ([5], r"messages\[0\]: a number"),
            (
                [ASK, {"content": "x"}],
                r"messages\[1\]: an object with keys 'content'; a message needs a role",
            ),
            ([{"role": "narrator", "content": "x"}], r"messages\[0\].role: 'narrator'; expected one of"),
            ([{"role": ["user"]}], r"messages\[0\].role: a list"),
            ([{"role": "user", "content": 5}], r"messages\[0\].content: a number; expected a text or a list"),
            ([{"role": "user", "content": ["x"]}], r"messages\[0\].content\[0\]: a text; expected a block"),
            ([{"role": "assistant", "tool_calls": {"id": 1}}], r"messages\[0\].tool_calls: an object"),
            ([{"role": "assistant", "tool_calls": [1]}], r"messages\[0\].tool_calls\[0\]: a number"),
        ],
    )
    def test_what_is_no_message_is_named_with_its_place(self, tmp_path: Path, messages: list[Any], where: str) -> None:
        with pytest.raises(BadMessage, match=where):
            load(written(tmp_path, {"messages": messages}))

    def test_the_harness_role_exit_is_dropped_with_a_note(self, tmp_path: Path) -> None:
        result_ = load(written(tmp_path, [ASK, {"role": "exit", "content": "patch"}], "x.json"), "openai")
        assert messages_of(result_) == [ASK]
        assert result_.notes == ("messages[1]: role 'exit' is the harness's, passed over",)

    def test_an_empty_list_is_a_session_without_messages(self, tmp_path: Path) -> None:
        assert messages_of(load(written(tmp_path, []))) == []


class TestTrajectories:
    def test_a_mini_swe_trajectory_gives_what_was_sent_and_what_it_cost(self, tmp_path: Path) -> None:
        response = {"model": "deepseek-chat", "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
        asked = {"role": "assistant", "content": "look", "tool_calls": [openai_call("c")]}
        run = {
            "trajectory_format": "mini-swe-agent-1.1",
            "messages": [
                ASK,
                asked | {"function_call": None, "extra": {"response": response}},
                {"role": "tool", "content": "", "tool_call_id": "c", "extra": {"raw_output": ""}},
            ],
        }
        (session,) = load(written(tmp_path, run)).sessions
        assert session.messages == [ASK, asked, {"role": "tool", "content": "", "tool_call_id": "c"}]
        assert session.usages == ((1, {"prompt_tokens": 7, "completion_tokens": 2}),)
        assert session.model == "deepseek-chat"

    def test_a_swe_agent_history_gets_its_call_ids_where_openai_wants_them(self, tmp_path: Path) -> None:
        history = [
            {"message_type": "observation", "agent": "main", **ASK},
            {
                "role": "assistant",
                "content": "t",
                "thought": "t",
                "action": "ls",
                "tool_calls": [openai_call("c")],
            },
            {"role": "tool", "content": "out", "tool_call_ids": ["c"], "agent": "main"},
        ]
        path = written(tmp_path, {"trajectory": [{"action": "ls"}], "history": history, "info": {}})
        assert messages_of(load(path)) == [
            ASK,
            {"role": "assistant", "content": "t", "tool_calls": [openai_call("c")]},
            {"role": "tool", "content": "out", "tool_call_id": "c"},
        ]

    def test_runs_are_sessions_named_by_task_and_trial(self, tmp_path: Path) -> None:
        run = {"task_id": 3, "trial": 0, "reward": 1.0, "traj": [{"role": "system", "content": "x"}, ASK]}
        result_ = load(written(tmp_path, [run, run | {"trial": 1}, run]))
        assert [s.name for s in result_.sessions] == ["task3/trial0", "task3/trial1", "task3/trial0#2"]

    def test_a_broken_run_is_named_and_passed_over(self, tmp_path: Path) -> None:
        result_ = load(written(tmp_path, [{"traj": [ASK]}, {"traj": [ASK, 7]}, 9]), "openai")
        assert [s.name for s in result_.sessions] == ["run0"]
        assert [note.split(":")[0] for note in result_.notes] == ["[1].traj[1]", "[2]"]

    def test_when_no_run_can_be_read_the_first_fault_is_the_error(self, tmp_path: Path) -> None:
        with pytest.raises(BadMessage, match=r"simulations\[0\].messages\[0\]: a number"):
            load(written(tmp_path, {"simulations": [{"messages": [7]}, {"messages": [8]}]}))

    def test_tau2_calls_become_openai_calls_and_the_users_own_are_left_out(self, tmp_path: Path) -> None:
        def tau2(role: str, content: str | None, call_id: str = "", requestor: str = "") -> Message:
            calls = [{"id": call_id, "name": "f", "arguments": {"a": 1}, "requestor": requestor}] if call_id else None
            return {"role": role, "content": content, "tool_calls": calls, "turn_idx": 0, "usage": None}

        simulation = {
            "id": "sim",
            "messages": [
                tau2("user", "hello"),
                tau2("assistant", None, "c1", "assistant") | {"usage": {"prompt_tokens": 5}},
                {"id": "c1", "role": "tool", "content": "", "requestor": "assistant", "error": False},
                tau2("assistant", "please restart it"),
                tau2("user", None, "u1", "user"),
                {"id": "u1", "role": "tool", "content": "restarted", "requestor": "user", "error": False},
                tau2("user", "I did"),
            ],
        }
        around = {"info": {"agent_info": {"llm": "gpt-x"}}, "simulations": [simulation]}
        result_ = load(written(tmp_path, around))
        (session,) = result_.sessions
        function = {"name": "f", "arguments": '{"a": 1}'}
        assert session.messages == [
            {"role": "user", "content": "hello"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            },
            {"role": "tool", "content": "", "tool_call_id": "c1"},
            {"role": "assistant", "content": "please restart it"},
            {"role": "user", "content": "I did"},
        ]
        assert (session.name, session.model, session.usages) == ("sim", "gpt-x", ((1, {"prompt_tokens": 5}),))
        assert result_.notes == (
            "simulations[0].messages: 1 tool calls of the user side and their 1 results passed over",
        )

    def test_json_lines_of_requests_are_a_session_each(self, tmp_path: Path) -> None:
        body = {"model": "claude-x", "messages": [ASK]}
        result_ = load(written(tmp_path, lines(body, {"x": 1}, body | {"id": "b"})))
        assert [s.name for s in result_.sessions] == ["line1", "b"]
        assert result_.notes[0].startswith("line 2: an object with keys 'x'")


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "is empty"),
            (b" \n", "is empty"),
            (b"\x89PNG\r\n\x1a\n\xff\xfe\xfd", "is not text"),
            (b"\x00" * 40, "not JSON"),
            (b'[{"role": "user", "content": "cut o', "line 1, column 30: not JSON .* is the file cut off"),
            (b'{\n "messages": [\n  {"role": "user"}\n', "line 4, column 1: not JSON"),
            (b"[\n" + json.dumps(ASK).encode() + b"\n", "line 3, column 1"),
            (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
            (
                b'[{"role": "user", "content": "x", "n": ' + b"9" * 5000 + b"}]",
                "integer of more than 4300 digits",
            ),
        ],
    )
    def test_what_is_no_json_is_refused_with_the_place(self, tmp_path: Path, content: bytes, reason: str) -> None:
        with pytest.raises(NotJson, match=reason):
            load(written(tmp_path, content))

    @pytest.mark.parametrize("content", [5, "text", None, {"a": 1, "b": 2}, {"messages": "none"}, {"runs": []}])
    def test_an_unknown_shape_says_what_was_found_and_what_is_accepted(self, tmp_path: Path, content: Any) -> None:
        with pytest.raises(UnknownFormat, match=r"holds .*; expected a Claude Code log"):
            load(written(tmp_path, content))

    @pytest.mark.parametrize(
        ("content", "whose"),
        [
            ([ASK, {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "t"}]}], "Vercel AI SDK"),
            ([{"id": "1", "role": "user", "parts": [{"type": "text", "text": "x"}]}], "Vercel AI SDK"),
            ([{"role": "user", "content": [{"type": "input_text", "text": "x"}]}], "Responses API"),
            ({"model": "m", "input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "Responses API"),
            ({"contents": [{"role": "user", "parts": [{"text": "x"}]}]}, "Gemini API"),
            ([{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": [{"text": "y"}]}], "Gemini API"),
            ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "Bedrock's Converse API"),
            ([ASK, {"role": "assistant", "content": [{"type": "toolRequest", "id": "t"}]}], "goose"),
            ([ASK, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}], "Responses API"),
        ],
    )
    def test_other_formats_that_are_known_are_named(self, tmp_path: Path, content: Any, whose: str) -> None:
        with pytest.raises(UnknownFormat, match=f"{whose} are not supported yet"):
            load(written(tmp_path, content))

    def test_a_directory_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(FileRefused, match="is a directory"):
            load(tmp_path)

    def test_a_missing_file_is_refused_by_name(self, tmp_path: Path) -> None:
        with pytest.raises(FileRefused, match=r"nothing\.json: cannot be read"):
            load(tmp_path / "nothing.json")

    def test_a_file_over_the_limit_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "sparse.json"
        with path.open("wb") as file:
            file.truncate(256 * 1024 * 1024 + 1)
        with pytest.raises(FileRefused, match="larger than 256 MB"):
            load(path)

    def test_an_unknown_format_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableFile, match="format 'yaml'; expected one of auto, anthropic, openai"):
            load(written(tmp_path, [ASK]), "yaml")

    def test_every_fault_is_one_line_that_starts_with_the_file(self, tmp_path: Path) -> None:
        path = written(tmp_path, {"a\nb": 1}, "odd name\n.json")
        with pytest.raises(UnreadableFile) as caught:
            load(path)
        assert "\n" not in str(caught.value)
        assert "odd name" in str(caught.value).split(": ")[0]


class TestOddEncodings:
    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
    def test_other_unicode_encodings_are_read(self, tmp_path: Path, encoding: str) -> None:
        assert messages_of(load(written(tmp_path, json.dumps([ASK, ANSWER]).encode(encoding)))) == [
            ASK,
            ANSWER,
        ]

    def test_a_byte_order_mark_before_json_lines_is_no_broken_line(self, tmp_path: Path) -> None:
        result_ = load(written(tmp_path, b"\xef\xbb\xbf" + lines(ASK, ANSWER)), "openai")
        assert (messages_of(result_), result_.notes) == ([ASK, ANSWER], ())

    def test_a_line_that_is_no_utf_8_is_named(self, tmp_path: Path) -> None:
        content = lines(ASK) + b'\n{"role": "user", "content": "\xff"}\n' + lines(ANSWER)
        result_ = load(written(tmp_path, content), "openai")
        assert (messages_of(result_), result_.notes) == (
            [ASK, ANSWER],
            ("line 2: not text in UTF-8, passed over",),
        )

    @pytest.mark.parametrize("between", ["", "\r", "\0\0", "\n\n", "\0\n"])
    def test_values_need_no_line_feed_between_them(self, tmp_path: Path, between: str) -> None:
        content = between.join(map(json.dumps, (ASK, ANSWER, ASK))) + between
        result_ = load(written(tmp_path, content.encode()), "openai")
        assert (messages_of(result_), result_.notes) == ([ASK, ANSWER, ASK], ())

    def test_values_of_several_lines_each_may_stand_one_behind_the_other(self, tmp_path: Path) -> None:
        content = "\n".join(json.dumps(message, indent=2) for message in (ASK, ANSWER))
        assert messages_of(load(written(tmp_path, content.encode()), "openai")) == [ASK, ANSWER]
        broken = content + "\n{"
        with pytest.raises(NotJson):
            load(written(tmp_path, broken.encode()), "openai")

    def test_nuls_behind_a_document_are_none_of_it(self, tmp_path: Path) -> None:
        content = json.dumps({"messages": [ASK, ANSWER]}, indent=2).encode() + b"\0" * 100
        assert messages_of(load(written(tmp_path, content), "openai")) == [ASK, ANSWER]

    def test_what_stands_before_a_value_that_was_cut_off_is_read(self, tmp_path: Path) -> None:
        content = lines(ASK) + b'{"role": "user", "cont\n' + lines(ANSWER, "") + b"\0\0\n"
        result_ = load(written(tmp_path, content), "openai")
        assert messages_of(result_) == [ASK, ANSWER]
        assert [note.partition(":")[0] for note in result_.notes] == ["line 1", "line 3"]

    @pytest.mark.parametrize("surrogate", [b"\\ud800", b"\xed\xa0\x80"])
    def test_lone_surrogates_come_through(self, tmp_path: Path, surrogate: bytes) -> None:
        path = written(tmp_path, b'[{"role": "user", "content": "' + surrogate + b'"}]')
        assert messages_of(load(path))[0]["content"] == "\ud800"

    def test_odd_numbers_come_through(self, tmp_path: Path) -> None:
        path = written(
            tmp_path, b'[{"role": "user", "content": [{"type": "x", "a": Infinity, "b": 1%s}]}]' % (b"0" * 99)
        )
        block = messages_of(load(path))[0]["content"][0]
        assert (block["a"], block["b"]) == (float("inf"), 10**99)

    def test_a_line_nested_too_deeply_does_not_take_the_others_along(self, tmp_path: Path) -> None:
        result_ = load(written(tmp_path, lines(ASK, "[" * 99_999 + "]" * 99_999, ANSWER)), "openai")
        assert (messages_of(result_), result_.notes) == (
            [ASK, ANSWER],
            ("line 2: is nested too deeply to be read, passed over",),
        )

    def test_there_is_a_bound_on_notes(self, tmp_path: Path) -> None:
        result_ = load(written(tmp_path, lines(*([ASK] * 300), *([5] * 200))), "openai")
        assert (len(result_.notes), result_.notes[-1]) == (51, "and 150 more notes")


class TestPick:
    def runs(self, tmp_path: Path, count: int) -> ImportResult:
        return load(written(tmp_path, [{"id": f"r{n}", "messages": [ASK]} for n in range(count)]), "openai")

    def test_the_only_session_needs_no_name(self, tmp_path: Path) -> None:
        assert pick(self.runs(tmp_path, 1), None).name == "r0"

    def test_one_of_several_is_picked_by_name(self, tmp_path: Path) -> None:
        assert pick(self.runs(tmp_path, 3), "r1").name == "r1"

    def test_several_sessions_and_no_name_lists_them(self, tmp_path: Path) -> None:
        with pytest.raises(SessionChoice, match=r"file\.json: holds 2 sessions, name one of them: r0, r1"):
            pick(self.runs(tmp_path, 2), None)

    def test_a_name_that_is_not_there_lists_those_that_are(self, tmp_path: Path) -> None:
        with pytest.raises(SessionChoice, match="has no session 'r9'; it holds: r0, r1"):
            pick(self.runs(tmp_path, 2), "r9")

    def test_a_long_list_of_names_is_cut(self, tmp_path: Path) -> None:
        with pytest.raises(SessionChoice, match=r"r19 and 5 more$"):
            pick(self.runs(tmp_path, 25), None)


@st.composite
def turns(draw: st.DrawFn) -> tuple[Log, list[Message]]:
    """A log whose lines stand as in real ones, and the list that was sent."""
    log = Log().user("start")
    sent: list[Message] = [{"role": "user", "content": "start"}]
    for turn in range(draw(st.integers(1, 5))):
        calls = [f"c{turn}-{n}" for n in range(draw(st.integers(0, 4)))]
        blocks = [text(f"turn {turn}"), *map(call, calls)]
        log.assistant(f"m{turn}", blocks[0])
        waiting: list[str] = []
        answers: list[Message] = []
        for call_id in calls:
            log.assistant(f"m{turn}", call(call_id))
            waiting.append(call_id)
            while waiting and draw(st.booleans()):
                answers.append(result(waiting.pop(draw(st.integers(0, len(waiting) - 1)))))
                log.user([answers[-1]])
        for call_id in waiting:
            answers.append(result(call_id))
            log.user([answers[-1]])
        sent.append({"role": "assistant", "content": blocks})
        sent += [{"role": "user", "content": answers}] if answers else []
        if draw(st.booleans()):
            log.line("progress").user(f"go on {turn}")
            sent.append({"role": "user", "content": f"go on {turn}"})
    return log, sent


@settings(deadline=None)
@given(turns())
def test_however_a_log_interleaves_its_lines_the_list_is_the_one_that_was_sent(
    case: tuple[Log, list[Message]],
) -> None:
    log, sent = case
    with TemporaryDirectory() as folder:
        assert messages_of(load(written(Path(folder), log))) == sent


KEYS = [
    *(
        "role",
        "content",
        "type",
        "message",
        "id",
        "text",
        "usage",
        "tools",
        "tool_calls",
        "tool_use_id",
        "lc",
    ),
    *("messages", "traj", "history", "simulations", "request", "extra", "info", "format", "system"),
    *("uuid", "parentUuid", "sessionId", "isSidechain", "agentId"),
]
ROLES = ["user", "assistant", "exit", "tool", ""]
ODD_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(ROLES),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=30,
)


@settings(deadline=None, max_examples=150)
@given(st.one_of(st.binary(max_size=60), ODD_JSON, st.lists(ODD_JSON, max_size=5).map(lambda v: lines(*v))))
def test_whatever_a_file_holds_it_is_read_or_refused(content: Any) -> None:
    with TemporaryDirectory() as folder, suppress(UnreadableFile):
        result_ = load(written(Path(folder), content))
        assert all(isinstance(message["role"], str) for s in result_.sessions for message in s.messages)
