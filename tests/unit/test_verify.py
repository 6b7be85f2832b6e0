"""What may be stored as a summary, judged by its form."""

import pytest

from foldahead.core.summarise import with_index
from foldahead.core.verify import spoken, verify_text

SPAN_TOKENS = 10_000

GOOD = (
    "## Goal\nStream the importer in `src/importer.py`.\n\n## Done\n- edited it; tests pass.",
    "The agent called read_file and got <html> back. It then wrote:\n```python\nprint(1)\n```\nand stopped.",
    'The config is {"port": 5544} and must stay so.',
    "The model once emitted `<tool_calls>` by mistake; the user asked to guard against it.",
    "用户要求把导入器改成流式读取，不要改动生产配置。测试已通过。",
    "[x] importer done; [ ] tests to write. Next: run the suite.",
    "Sorry state of the build: three tests fail because the port is taken.",
    "I will need approval before the bucket is deleted. " * 40,
    "Error 404 was mended: the route was missing, and the tests that told it are green. Next: deploy to staging, "
    "then ask for approval of the migration.",
    "None of the three hosts answered; the user wants port 9191.",
    "<think>What matters here?</think>\nThe importer streams; the tests are green.",
    "```markdown\n## Goal\nStream the importer.\n```",
)

BAD = (
    ("", "empty"),
    ("   \n ", "empty"),
    (
        '<tool_calls>[{"name": "read_file", "arguments": {"path": "src/importer.py"}}]</tool_calls>',
        "not_prose",
    ),
    ("<function_calls>\n<invoke name='x'></invoke></function_calls>", "not_prose"),
    ('Sure: <tool_call>{"name": "f", "arguments": {}}</tool_call>', "not_prose"),
    ('{"name": "read_file", "arguments": {"path": "a"}}', "not_prose"),
    ('{"summary": "all done"}', "not_prose"),
    ("```python\nprint('x')\n```", "not_prose"),
    ("<div><span></span></div><br>", "not_prose"),
    ("I'm sorry, I can't summarise this conversation.", "about_the_request"),
    ("Please provide the conversation that you would like me to summarize.", "about_the_request"),
    ("It looks like the conversation is empty.", "about_the_request"),
    ("抱歉，我无法总结。", "about_the_request"),
    ("Lo siento, no puedo ayudar con eso.", "about_the_request"),
    ("Es tut mir leid, aber ich kann das nicht zusammenfassen.", "about_the_request"),
    ("I must decline to summarize this.", "about_the_request"),
    ("The transcript you provided is empty.", "about_the_request"),
    ("Understood. I will summarize conversations from now on.", "about_the_request"),
    ("Sure, let me run the tests now and fix the importer.", "about_the_request"),
    ("\u200b\ufeff", "empty"),
    ("null", "empty"),
    ("[object Object]", "empty"),
    ("No summary available.", "empty"),
    ("## Goal\n\n## Done\n", "empty"),
    ("<think>Let me see what they want, and", "cut_off"),
    ("<think>Nothing to say.</think>", "empty"),
    ("<|channel|>analysis<|message|>We need to summarise.", "not_prose"),
    ("<html><head><title>502 Bad Gateway</title></head></html>", "not_prose"),
    ("Error: 429 too many requests", "not_prose"),
    ("Internal Server Error", "not_prose"),
    ("word " * 20_000, "not_smaller"),
)


@pytest.mark.parametrize("text", GOOD)
def test_a_real_summary_passes(text: str) -> None:
    assert verify_text(text, SPAN_TOKENS).ok


@pytest.mark.parametrize(("text", "reason"), BAD)
def test_what_is_no_summary_is_refused_with_the_reason(text: str, reason: str) -> None:
    verdict = verify_text(text, SPAN_TOKENS)
    assert (verdict.ok, verdict.reason) == (False, reason)


@pytest.mark.parametrize(
    ("stop_reason", "reason"),
    [("max_tokens", "cut_off"), ("length", "cut_off"), ("refusal", "refused"), ("tool_use", "not_prose")],
)
def test_a_stop_reason_other_than_the_end_refuses_any_text(stop_reason: str, reason: str) -> None:
    assert verify_text(GOOD[0], SPAN_TOKENS, stop_reason).reason == reason


def test_what_models_put_around_an_answer_is_no_part_of_it() -> None:
    said = "The importer streams; the tests are green."
    assert spoken(f"<think>hm</think>\n<analysis>\nso\n</analysis>\n\n{said}\n") == said
    assert spoken(f"```md\n{said}\n```") == said
    assert with_index(f"<thinking>hm</thinking>{said}", []) == said


def test_three_dots_are_not_called_empty() -> None:
    assert verify_text("...", SPAN_TOKENS).ok


def test_a_summary_as_large_as_its_span_is_not_smaller() -> None:
    assert verify_text("four short words here", 6).reason == "not_smaller"
