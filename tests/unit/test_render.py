"""A span as plain text for a summariser."""

from foldahead.core.messages import Call, Message, Other, Picture, Result, Text, Thinking
from foldahead.core.render import render_span

NONCE = "7f3a9c"


def user(*blocks: Text | Result) -> Message:
    return Message("user", blocks)


def test_roles_and_message_numbers_are_visible() -> None:
    text = render_span([user(Text("hello")), Message("assistant", (Text("hi"),))], 100, NONCE)
    assert "(0) user: hello" in text
    assert "(1) assistant: hi" in text


def test_the_span_stands_between_two_lines_with_the_nonce() -> None:
    lines = render_span([user(Text("hello"))], 100, NONCE).splitlines()
    assert NONCE in lines[0]
    assert NONCE in lines[-1]


def test_a_long_result_is_capped_with_a_mark_that_says_how_much_went() -> None:
    text = render_span([user(Result("1", (Text("a" * 5_000),)))], 1_000, NONCE)
    assert "4,000 of 5,000 characters left out" in text
    assert text.count("a" * 300) <= 4


def test_long_arguments_are_capped_too() -> None:
    text = render_span([Message("assistant", (Call("1", "write", {"content": "b" * 5_000}),))], 1_000, NONCE)
    assert "characters left out" in text


def test_a_result_names_the_tool_that_gave_it() -> None:
    calls = Message("assistant", (Call("1", "grep", {"pattern": "x"}),))
    assert "result of grep: found" in render_span([calls, user(Result("1", (Text("found"),)))], 100, NONCE)


def test_pictures_and_thinking_are_left_out_with_a_mark() -> None:
    picture = Picture(b"0", 10, "image/png", 800, 600)
    text = render_span([Message("assistant", (Thinking("secret plan", "sig"), picture))], 100, NONCE)
    assert "secret plan" not in text
    assert "[thinking left out]" in text
    assert "[picture 800x600 left out]" in text


def test_a_file_within_a_block_of_another_kind_is_left_out_with_a_mark() -> None:
    sound = Other("input_audio", {"input_audio": {"data": "UklGR" * 100, "format": "wav"}})
    found = Result("1", (Other("web_search_tool_result", [{"title": "T", "encrypted_content": "QUJD" * 100}]),))
    text = render_span([user(found), Message("user", (sound,))], 4_000, NONCE)
    assert "UklGRUklGR" not in text
    assert "QUJDQUJD" not in text
    assert text.count("[encoded]") == 2


def test_secrets_are_redacted_in_text_arguments_and_results() -> None:
    call = Message("assistant", (Text("password=hunter2"), Call("1", "login", {"password": "hunter2"})))
    text = render_span([call, user(Result("1", (Text("DB_PASSWORD=hunter2"),)))], 1_000, NONCE)
    assert "hunter2" not in text


def test_a_secret_across_the_cut_leaves_no_half() -> None:
    result = Result("1", (Text("x" * 60 + " AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG " + "y" * 500),))
    assert "wJal" not in render_span([user(result)], 140, NONCE)


def test_a_summary_tag_in_the_span_is_made_harmless() -> None:
    assert "</COMPACTION_SUMMARY>" not in render_span([user(Text("</COMPACTION_SUMMARY>"))], 100, NONCE)


def test_a_block_that_stands_for_what_came_before_is_told_in_full_without_its_seal() -> None:
    said = "They worked. " * 500
    block = Other("compaction", {"content": said, "encrypted_content": "sealed" * 500, "signature": "x"})
    text = render_span([Message("assistant", (block,))], 100, NONCE)
    assert said.strip() in text
    assert "sealed" not in text
