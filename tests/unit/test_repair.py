"""Mending: the least change, by a record, and only once."""

from typing import Any

import pytest

from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import ledger_of
from foldahead.core.record import Record
from foldahead.core.repair import describe, repairs
from foldahead.core.view import active_records, build_view
from tests.histories import (
    answers,
    assistant,
    call,
    calls,
    result,
    says,
    server_call,
    server_result,
    system,
    text,
    thinking,
    user,
)
from tests.judging import faults_of

CONTINUE = user("(continue)")


def mended(history: list[Any], dialect: str = "anthropic") -> list[Any]:
    """The mended view, judged; mending it again finds nothing to do."""
    ledger = ledger_of(history, get_dialect(dialect))
    records = repairs(history, ledger, active_records([], ledger), 0)
    active = active_records(records, ledger)
    assert repairs(history, ledger, active, 0) == []
    view = build_view(history, active, ledger.dialect)
    assert faults_of(view, dialect) == []
    return view


def test_a_result_without_call_is_taken_out() -> None:
    history = [user("a"), assistant("b"), user(result("gone"), "and?")]
    assert mended(history) == [user("a"), assistant("b"), user("and?")]


def test_a_message_that_was_nothing_else_goes_whole() -> None:
    history = [says("a"), answers("gone"), says("b")]
    assert mended(history, "openai") == [says("a"), says("b")]


def test_a_dead_call_is_taken_out_and_what_was_said_stays() -> None:
    history = [user("a"), assistant("b", call()), user("never mind")]
    assert mended(history) == [user("a"), assistant("b"), user("never mind")]


def test_a_dead_call_takes_the_thinking_that_led_to_it_alone_along() -> None:
    history = [user("a"), assistant(thinking(), call()), user("never mind")]
    assert mended(history) == [user("a"), user("never mind")]


def test_of_parallel_calls_only_the_dead_one_goes() -> None:
    history = [says("a"), calls("x", "y"), answers("x"), says("b")]
    assert mended(history, "openai") == [says("a"), calls("x"), answers("x"), says("b")]


def test_a_dead_server_tool_and_its_late_result_both_go() -> None:
    history = [user("a"), assistant("b", server_call()), user("stop"), assistant(server_result(), "c"), user("d")]
    assert mended(history) == [user("a"), assistant("b"), user("stop"), assistant("c"), user("d")]


def test_a_result_behind_text_in_one_message_is_moved_ahead_of_it() -> None:
    history = [user("a"), assistant(call()), user("here:", result())]
    assert mended(history) == [user("a"), assistant(call()), user(result(), "here:")]


def test_a_result_behind_another_message_is_moved_to_its_call() -> None:
    history = [user("a"), assistant(call()), user("wait"), user(result()), assistant("b"), user("c")]
    assert mended(history) == [user("a"), assistant(call()), user(result(), "wait"), *history[4:]]


def test_a_tool_message_behind_another_is_moved_to_its_call() -> None:
    history = [says("a"), calls("x", "y"), answers("x"), says("wait"), answers("y"), says("b", "assistant")]
    wanted = [says("a"), calls("x", "y"), answers("x"), answers("y"), says("wait"), says("b", "assistant")]
    assert mended(history, "openai") == wanted


def test_a_system_message_steps_behind_the_results_that_it_parted() -> None:
    history = [user("a"), assistant(call()), system(), user(result()), assistant("b"), user("c")]
    assert mended(history) == [user("a"), assistant(call()), user(result()), system(), *history[4:]]


def test_a_system_message_with_the_users_behind_it_steps_behind_that() -> None:
    history = [user("a"), assistant("b"), user("c"), system("d"), user("e"), assistant("f")]
    assert mended(history) == [user("a"), assistant("b"), user("c"), user("e"), system("d"), assistant("f")]


def test_a_system_message_whose_answer_was_lost_with_the_call_in_it_keeps_a_users_ahead() -> None:
    history = [user("a"), system("b"), user(result("gone")), user("c"), assistant("d")]
    assert mended(history) == [user("a"), user("c"), system("b"), assistant("d")]


def test_system_messages_that_head_the_list_stay_there() -> None:
    history = [system("a"), system("b"), user("c"), system("d"), user("e")]
    ledger = ledger_of(history, get_dialect("anthropic"))
    records = repairs(history, ledger, active_records([], ledger), 0)
    assert [(record.start, record.message) for record in records] == [(3, user("e")), (4, system("d"))]


def test_a_system_message_within_the_assistants_run_steps_behind_the_answer_to_it() -> None:
    history = [user("a"), assistant("b", call()), system(), assistant("c"), user(result()), assistant("d"), user("e")]
    wanted = [user("a"), assistant("b", call()), assistant("c"), user(result()), system(), *history[5:]]
    assert mended(history) == wanted


def test_results_moved_to_their_call_never_stand_within_the_assistants_run() -> None:
    history = [user("a"), assistant("b"), system(), assistant(call()), user("wait"), user(result()), assistant("c")]
    wanted = [user("a"), assistant("b"), assistant(call()), user(result(), "wait"), system(), assistant("c")]
    assert mended(history) == wanted


def test_system_messages_in_a_row_become_one() -> None:
    history = [user("a"), system("b"), system("c"), assistant("d"), user("e")]
    joined = {"role": "system", "content": [text("b"), text("c")]}
    assert mended(history) == [user("a"), joined, assistant("d"), user("e")]


def test_a_system_message_steps_behind_a_word_where_all_that_the_user_said_was_faulty() -> None:
    history = [user("a"), assistant("b"), system(), user(result("gone"))]
    assert mended(history) == [user("a"), assistant("b"), CONTINUE, system()]


def test_a_system_message_that_was_moved_steps_behind_what_the_user_adds() -> None:
    history = [user("a"), assistant("b"), system(), user("c"), user("d")]
    dialect = get_dialect("anthropic")
    records: list[Record] = []
    for length in (4, 5):
        ledger = ledger_of(history[:length], dialect)
        records += repairs(history[:length], ledger, active_records(records, ledger), 0)
    view = build_view(history, active_records(records, ledger), dialect)
    assert view == [user("a"), assistant("b"), user("c"), user("d"), system()]


def test_an_empty_answer_to_a_system_message_becomes_a_word_of_the_assistants() -> None:
    history = [user("a"), system(), assistant(""), user("b"), assistant("c"), user("d")]
    assert mended(history)[2] == assistant("Understood.")


def test_no_word_is_put_in_ahead_of_results_that_were_moved_there() -> None:
    history = [user("a"), assistant(call()), user(result("gone")), system(), user(result())]
    assert mended(history) == [user("a"), assistant(call()), user(result()), system()]


def test_no_word_goes_past_a_call_that_still_waits() -> None:
    history = [says("a"), calls("b"), answers("gone")]
    ledger = ledger_of(history, get_dialect("openai"))
    (record,) = repairs(history, ledger, active_records([], ledger), 0)
    assert (record.start, record.message) == (2, None)


def test_of_a_history_that_is_faulty_throughout_a_word_stays() -> None:
    assert mended([answers("gone"), says("", "assistant"), answers("lost")], "openai") == [says("(continue)")]


def test_thinking_that_a_turn_ends_in_is_taken_out() -> None:
    history = [user("a"), assistant(thinking("b")), user("[interrupted]"), assistant(thinking("c"), "d"), user("e")]
    assert mended(history) == [user("a"), user("[interrupted]"), *history[3:]]
    cut_off = [user("a"), assistant(thinking("b"), "c", thinking("d")), user("e")]
    assert mended(cut_off) == [user("a"), assistant(thinking("b"), "c"), user("e")]


def test_thinking_goes_whose_call_in_the_next_message_is_dead() -> None:
    history = [user("a"), assistant("b"), assistant(thinking()), assistant(call()), user("never mind")]
    assert mended(history) == [user("a"), assistant("b"), user("never mind")]


def test_thinking_whose_call_stands_in_the_next_message_stays() -> None:
    history = [user("a"), assistant(thinking()), assistant(call()), user(result()), assistant("b"), user("c")]
    assert mended(history) == history


def test_blank_text_that_alone_is_left_of_a_message_goes_with_it() -> None:
    assert mended([user("a"), assistant(" ", call()), user("never mind")]) == [user("a"), user("never mind")]


def test_reasoning_without_a_word_is_an_empty_message_where_it_is_no_content() -> None:
    thought = {"role": "assistant", "content": "", "reasoning_content": "hm"}
    assert mended([says("a"), thought, says("b")], "openai") == [says("a"), says("b")]


def test_an_empty_list_of_calls_goes_and_a_null_result_becomes_an_empty_text() -> None:
    history = [says("a"), {**says("b", "assistant"), "tool_calls": []}, says("c"), calls("x"), answers("x", None)]
    wanted = [says("a"), says("b", "assistant"), says("c"), calls("x"), answers("x", "")]
    assert mended(history, "openai") == wanted


def test_what_stands_in_the_wrong_role_is_taken_out() -> None:
    answered_itself = [user("a"), assistant("b", call(), result()), user("c")]
    assert mended(answered_itself) == [user("a"), assistant("b"), user("c")]
    called_by_the_user = [user("a", call()), user(result()), assistant("b"), user("c")]
    assert mended(called_by_the_user) == [user("a"), assistant("b"), user("c")]


def test_a_late_result_brings_its_call_back() -> None:
    history = [user("a"), assistant("b", call()), user("wait"), user(result())]
    first = ledger_of(history[:3], get_dialect("anthropic"))
    early = repairs(history[:3], first, active_records([], first), 0)
    ledger = ledger_of(history, get_dialect("anthropic"))
    records = [*early, *repairs(history, ledger, active_records(early, ledger), 0)]
    view = build_view(history, active_records(records, ledger), ledger.dialect)
    assert view == [user("a"), assistant("b", call()), user(result(), "wait")]
    assert len({record.identity for record in records}) == len(records)


def test_empty_texts_and_messages_are_taken_out() -> None:
    history = [user("a", ""), assistant(""), user("b")]
    assert mended(history) == [user("a"), user("b")]


def test_an_empty_message_of_the_assistants_at_the_end_is_the_callers_to_fill() -> None:
    history = [user("a"), assistant("b"), user("c"), {"role": "assistant", "content": ""}]
    ledger = ledger_of(history, get_dialect("anthropic"))
    assert repairs(history, ledger, active_records([], ledger), 0) == []


def test_an_empty_message_of_the_users_at_the_end_becomes_a_word() -> None:
    assert mended([user("a"), assistant("b"), user(" ")]) == [user("a"), assistant("b"), CONTINUE]
    assert mended([says("a"), says("b", "assistant"), says("")], "openai")[-1] == says("(continue)")
    assert mended([user("a"), assistant("b"), user("c"), user("")]) == [user("a"), assistant("b"), user("c")]


def test_the_user_still_speaks_first_and_last() -> None:
    assert mended([user(result("gone")), assistant("b"), user("c")]) == [CONTINUE, assistant("b"), user("c")]
    assert mended([user("a"), assistant("b"), user(result("gone"))]) == [user("a"), assistant("b"), CONTINUE]
    assert mended([says("a"), says("b", "assistant"), answers("gone")], "openai")[-1] == says("(continue)")


def test_a_word_put_in_at_the_end_goes_when_the_results_come_after_all() -> None:
    history = [says("a"), calls("b"), answers("gone"), answers("b"), says("c", "assistant"), says("d")]
    dialect = get_dialect("openai")
    records: list[Record] = []
    for length in (3, 4, 6):
        ledger = ledger_of(history[:length], dialect)
        records += repairs(history[:length], ledger, active_records(records, ledger), 0)
    view = build_view(history, active_records(records, ledger), dialect)
    assert view == [says("a"), calls("b"), answers("b"), says("c", "assistant"), says("d")]


def test_a_word_put_in_at_the_end_stays_once_it_was_answered() -> None:
    history = [user("a"), assistant("b"), user(result("gone")), assistant("c"), user("d")]
    dialect = get_dialect("anthropic")
    first = ledger_of(history[:3], dialect)
    early = repairs(history[:3], first, active_records([], first), 0)
    ledger = ledger_of(history, dialect)
    assert repairs(history, ledger, active_records(early, ledger), 0) == []


def test_a_system_message_keeps_a_users_ahead_of_it() -> None:
    history = [user("a"), assistant("b"), user(result("gone")), system(), assistant("c"), user("d")]
    assert mended(history)[2] == CONTINUE


def test_arguments_that_are_no_object_become_one() -> None:
    for given, shown in (
        ('{"a": 1}', {"a": 1}),
        ('{"a": ', {"invalid": '{"a": '}),
        (None, {}),
        ([1], {"invalid": [1]}),
    ):
        history = [user("a"), assistant({**call(), "input": given}), user(result())]
        assert mended(history)[1] == assistant({**call(), "input": shown})


def test_arguments_that_are_no_text_become_one_in_openai() -> None:
    for given, shown in (({"a": 1}, '{"a":1}'), (None, "{}")):
        asked = calls("x")
        asked["tool_calls"][0] |= {"type": None, "function": {"name": "read_file", "arguments": given}}
        assert mended([says("a"), asked, answers("x")], "openai")[1] == calls("x", arguments=shown)


def test_a_result_whose_content_is_null_has_none() -> None:
    history = [user("a"), assistant(call()), user(result(content=None))]
    assert mended(history)[2] == user({"type": "tool_result", "tool_use_id": "c1"})


def test_half_a_character_becomes_the_replacement_character() -> None:
    history = [says("a \ud83d"), assistant(call(path="\udc00")), user(result(content=[text("\ud83d b")]), "c")]
    view = mended(history)
    assert view[0] == says("a \ufffd")
    assert view[1] == assistant(call(path="\ufffd"))
    assert view[2] == user(result(content=[text("\ufffd b")]), "c")
    spoken = [says("a \ud83d"), calls("x"), answers("x", "\ud83d"), says("b", "assistant"), says("c")]
    assert mended(spoken, "openai")[2] == answers("x", "\ufffd")


def test_ids_of_another_maker_are_written_otherwise_in_call_and_result_alike() -> None:
    history = [
        user("a"),
        assistant(call("bash:0"), call("bash.0", "mcp.x/y")),
        user(result("bash.0"), result("bash:0")),
    ]
    view = mended(history)
    first, second = (block["id"] for block in view[1]["content"])
    assert [block["tool_use_id"] for block in view[2]["content"]] == [second, first]
    assert view[1]["content"][1]["name"] == "mcp_x_y"
    assert mended([user("a"), assistant({**call(), "id": None}), user(result(""))])[1]["content"][0]["id"]


def test_a_model_of_another_maker_keeps_its_ids() -> None:
    history = [user("a"), assistant(call("bash:0")), user(result("bash:0"))]
    ledger = ledger_of(history, get_dialect("anthropic"))
    assert repairs(history, ledger, active_records([], ledger), 0, "kimi-k3") == []
    assert repairs(history, ledger, active_records([], ledger), 0, "anthropic/claude-opus-9") != []


def test_an_id_used_twice_in_one_turn_is_left_alone() -> None:
    history = [assistant(call("x"), call("x")), user(result("x"), result("x"))]
    ledger = ledger_of(history, get_dialect("anthropic"))
    assert repairs(history, ledger, active_records([], ledger), 0) == []


def test_what_a_provider_refused_is_not_mended_again() -> None:
    history = [user("a"), assistant("b"), user(result("gone"), "and?")]
    ledger = ledger_of(history, get_dialect("anthropic"))
    heads: dict[str, Any] = {"head_start": ledger.heads[0].hex(), "head_end": ledger.heads[3].hex()}
    refused = active_records([Record(kind="swapped", start=0, end=3, reason="rejected", **heads)], ledger)
    assert repairs(history, ledger, refused, 0) == []


def test_a_record_of_sdk_objects_is_plain() -> None:
    class Block:
        type = "text"

        def to_dict(self) -> dict[str, Any]:
            return {"type": "text", "text": "b"}

    history = [user("a"), {"role": "assistant", "content": [Block(), call()]}, user("never mind")]
    ledger = ledger_of(history, get_dialect("anthropic"))
    (record,) = repairs(history, ledger, active_records([], ledger), 0)
    assert record.message == assistant("b")


@pytest.mark.parametrize(
    ("history", "said"),
    [
        ([user("a"), user(result("gone"))], "messages[1].content[0]: result for call 'gone', which is not in the turn"),
        ([assistant(call()), user("x", result())], "messages[1].content[1]: result for call 'c1' stands apart"),
        ([assistant("b", call()), user("x")], "messages[0].content[1]: call 'c1' of read_file was never answered"),
        ([user("a", "")], "messages[0].content[1]: empty text"),
        ([user("")], "messages[0]: nothing in it"),
        ([assistant(thinking()), user("a")], "messages[0].content[0]: thinking that the assistant's turn ends in"),
        ([user("a"), assistant("b"), system(), user("c")], "messages[2]: a system message that does not stand between"),
        ([assistant(call(), call())], "messages[0].content[1]: id 'c1' is used twice in one turn; left as it is"),
        ([assistant({**call(), "input": 1})], "messages[0]: an empty list of calls, arguments in another form"),
        ([assistant(call("b:0"))], "messages[0].content[0]: id 'b:0' or tool name 'read_file' holds what"),
    ],
    ids=[
        *("orphan", "apart", "dead", "empty block", "empty message", "thinking last", "system apart", "repeated"),
        *("ill formed", "foreign"),
    ],
)
def test_a_fault_is_described_by_place_and_kind(history: list[Any], said: str) -> None:
    (fault, *_) = ledger_of(history, get_dialect("anthropic")).faults
    assert describe(fault).startswith(said)
