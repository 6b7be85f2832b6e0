"""Which result answers which call, what is a fault, and where history may be cut."""

from typing import Any

from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import Ledger, bodies_of, ledger_of
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


def ledger(*messages: Any, dialect: str = "anthropic") -> Ledger:
    return ledger_of(list(messages), get_dialect(dialect))


def cuts(*messages: Any, dialect: str = "anthropic") -> list[int]:
    account = ledger(*messages, dialect=dialect)
    return [at for at in range(len(account) + 1) if account.cuttable(at)]


def faults(*messages: Any, dialect: str = "anthropic") -> list[tuple[int, int, str]]:
    return [(fault.index, fault.block, fault.kind) for fault in ledger(*messages, dialect=dialect).faults]


def test_no_cut_parts_a_call_from_its_result() -> None:
    assert cuts(user("a"), assistant(call()), user(result()), assistant("b")) == [0, 1, 3, 4]


def test_no_cut_falls_between_parallel_results_in_separate_messages() -> None:
    history = [user("a"), assistant(call("x"), call("y")), user(result("x")), user(result("y")), assistant("b")]
    assert cuts(*history) == [0, 1, 4, 5]
    assert faults(*history) == []


def test_no_cut_falls_between_tool_messages() -> None:
    assert cuts(says("a"), calls("x", "y"), answers("x"), answers("y"), dialect="openai") == [0, 1, 4]


def test_ids_used_again_in_every_round_are_paired_by_adjacency() -> None:
    rounds = [message for _ in range(3) for message in (assistant(call("bash_0")), user(result("bash_0")))]
    assert faults(user("a"), *rounds) == []
    assert cuts(user("a"), *rounds) == [0, 1, 3, 5, 7]


def test_one_id_twice_in_a_turn_is_reported_and_each_result_answers_the_next_of_them() -> None:
    assert faults(assistant(call("x"), call("x")), user(result("x"), result("x"))) == [(0, 1, "repeated_id")]


def test_a_run_of_the_assistants_is_one_unit() -> None:
    assert cuts(user("a"), assistant("b"), assistant("c"), user("d")) == [0, 1, 3, 4]


def test_each_message_of_an_openai_assistant_is_answered_by_itself() -> None:
    history = [says("a"), calls("x"), says("b", "assistant"), answers("x")]
    assert faults(*history, dialect="openai") == [(1, 0, "dead_call"), (3, 0, "orphan_result")]


def test_a_server_tool_may_be_answered_in_a_later_message_of_its_run() -> None:
    history = [user("a"), assistant(server_call()), assistant(server_result()), user("b")]
    assert cuts(*history) == [0, 1, 3, 4]
    assert faults(*history) == []


def test_a_server_tool_may_be_answered_after_the_results_of_other_tools() -> None:
    history = [user("a"), assistant(server_call(), call()), user(result()), assistant(server_result()), user("b")]
    assert cuts(*history) == [0, 1, 4, 5]
    assert faults(*history) == []


def test_a_server_tool_is_dead_once_the_user_says_anything_else() -> None:
    history = [user("a"), assistant(server_call()), user("stop"), assistant(server_result())]
    assert faults(*history) == [(1, 0, "dead_call"), (3, 0, "orphan_result")]


def test_a_call_without_result_at_the_end_is_open() -> None:
    account = ledger(user("a"), assistant(call()))
    assert account.open_calls == ((1, "read_file"),)
    assert not account.cuttable(2)
    assert account.faults == []


def test_a_call_that_the_conversation_went_past_is_dead_and_no_obstacle() -> None:
    history = [user("a"), assistant("b", call()), user("forget it"), assistant("c")]
    assert faults(*history) == [(1, 1, "dead_call")]
    assert cuts(*history) == [0, 1, 3, 4]


def test_a_result_without_call_is_an_orphan() -> None:
    assert faults(user("a"), assistant("b"), user(result("gone"))) == [(2, 0, "orphan_result")]
    assert faults(says("a"), answers("gone"), dialect="openai") == [(1, 0, "orphan_result")]


def test_a_second_result_for_one_call_is_an_orphan() -> None:
    assert faults(assistant(call()), user(result(), result())) == [(1, 1, "orphan_result")]


def test_a_result_behind_other_content_stands_apart() -> None:
    assert faults(assistant(call()), user("here:", result())) == [(1, 1, "result_apart")]


def test_a_result_behind_another_message_stands_apart_and_its_call_is_not_dead_after_all() -> None:
    history = [user("a"), assistant(call()), user("wait"), user(result()), assistant("b")]
    assert faults(*history[:3]) == [(1, 0, "dead_call")]
    assert faults(*history) == [(3, 0, "result_apart")]
    assert cuts(*history) == [0, 1, 4, 5]


def test_a_system_message_between_call_and_result_sets_them_apart() -> None:
    history = [says("a"), calls("x"), says("be brief", "system"), answers("x")]
    assert faults(*history, dialect="openai") == [(3, 0, "result_apart")]
    assert cuts(*history, dialect="openai") == [0, 1, 4]


def test_a_system_message_behind_the_results_is_no_fault() -> None:
    assert faults(user("a"), assistant(call()), user(result()), system(), assistant("b")) == []


def test_empty_texts_and_empty_messages_are_faults() -> None:
    assert faults(user("a", "")) == [(0, 1, "empty_block")]
    assert faults(user(" ")) == [(0, -1, "empty_message")]
    assert faults({"role": "assistant", "content": []}) == [(0, -1, "empty_message")]
    assert faults({"role": "assistant", "content": None}, dialect="openai") == [(0, -1, "empty_message")]


def test_white_space_beside_other_content_is_none() -> None:
    assert faults(user("a", " ")) == []


def test_an_empty_text_beside_calls_or_a_refusal_is_none_in_openai() -> None:
    assert faults(calls("x", said=""), answers("x", ""), dialect="openai") == []
    assert faults({"role": "assistant", "content": None, "refusal": "no"}, dialect="openai") == []


def test_a_turn_of_the_assistants_may_not_end_in_thinking() -> None:
    assert faults(user("a"), assistant("b", thinking()), user("c")) == [(1, 1, "thinking_last")]
    assert faults(user("a"), assistant(thinking()), assistant(call()), user(result())) == []
    assert faults(user("a"), assistant(thinking())) == [], "it may go on"
    assert ledger(user("a"), assistant(thinking())).waiting is None, "whatever comes next is to be looked at"


def test_a_system_message_stands_between_a_users_and_the_assistants() -> None:
    assert faults(user("a"), assistant("b"), system(), assistant("c")) == [(2, -1, "system_apart")]
    assert faults(user("a"), system(), system(), assistant("b")) == [(2, -1, "system_apart")]
    assert faults(user("a"), assistant(server_call()), system(), assistant(server_result())) == []


def test_only_the_assistant_calls_and_only_the_users_side_answers() -> None:
    assert faults(assistant(call(), result())) == [(0, 1, "orphan_result")]
    assert faults(user(call()), user(result())) == [(0, 0, "dead_call"), (1, 0, "orphan_result")]


def test_what_no_provider_of_a_dialect_takes_is_ill_formed() -> None:
    assert faults({**says("a", "assistant"), "tool_calls": []}, dialect="openai") == [(0, -1, "ill_formed")]
    assert faults(calls("x"), answers("x", None), dialect="openai") == [(1, -1, "ill_formed")]
    assert faults({"role": "assistant", "content": None, "tool_calls": []}, dialect="openai") == [
        (0, -1, "empty_message")
    ]
    assert faults(assistant({**call(), "input": '{"a": 1}'}), user(result())) == [(0, -1, "ill_formed")]
    assert faults(assistant(call()), user(result(content=None))) == [(1, -1, "ill_formed")]


def test_an_id_of_another_makers_is_foreign_where_ids_are_plain() -> None:
    history = [user("a"), assistant(call("bash:0")), user(result("bash:0"))]
    assert faults(*history) == [(1, 0, "foreign_id"), (2, 0, "foreign_id")]
    assert faults(assistant(call(name="mcp.server/tool")), user(result())) == [(0, 0, "foreign_id")]
    assert faults(says("a"), calls("bash:0"), answers("bash:0"), dialect="openai") == []
    assert ledger(*history[:2]).waiting is None, "its result is to be looked at"


def test_half_a_character_is_ill_formed_wherever_it_stands_but_in_thinking() -> None:
    for message in (says("half \ud83d"), user("half \ud83d"), user(result(content=[text("\ud83d")]))):
        assert faults(assistant(call()), message)[-1] == (1, -1, "ill_formed")
    assert faults(assistant(call(path="\ud83d")))[-1] == (0, -1, "ill_formed")
    assert faults(user("a"), assistant(thinking("\ud83d"), "b")) == []
    assert faults(calls("x"), answers("x", "\ud83d"), dialect="openai") == [(1, -1, "ill_formed")]


def test_no_cut_falls_among_instructions_within_a_run() -> None:
    history = [
        user("a"),
        assistant(server_call(), server_result()),
        system(),
        system(),
        assistant(call()),
        user(result()),
    ]
    assert cuts(*history) == [0, 1, 6]


def test_text_behind_a_call_in_the_same_message_is_no_interruption() -> None:
    assert faults(assistant(call(), "looking"), user(result())) == []


def test_bodies_do_not_depend_on_where_reading_began() -> None:
    history = [user("a"), assistant(server_call(), call()), user(result()), assistant(server_result()), user("b")]
    account = ledger(*history)
    whole = bodies_of(history, account, 0, 5)
    assert [bodies_of(history, account, at, 5) for at in range(5)] == [whole[at:] for at in range(5)]
