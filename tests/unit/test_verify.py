"""What may be stored as a summary, judged by its form."""

import time

import pytest

from foldahead.core.summarise import with_index
from foldahead.core.verify import spoken, verify_text

SPAN_TOKENS = 10_000
ABOUT = "about_the_request"

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
    "500 rows were imported, 3 refused.",
    "429 tests pass, 2 fail (test_a, test_b).",
    "Please send invoices only as PDF: that is the user's rule. Done: 3 invoices.",
    "Failed to create the bucket logs-7: quota. Next: ask for more.",
    "The request failed with E1234 and was retried; port 9191 is set.",
    "AssertionError: 42 != 43 in test_x is open; the user wants it fixed by Friday.",
    "Which host leaks? web-3, it turned out. Next: restart it.",
    "## Goal\n[x] importer\n[ ] exporter\n## Constraints\n- key is [redacted:token]",
    "The user asked for <read_file> support; the tag <path> is parsed in parser.py.",
    "The model wrote `<read_file><path>a</path></read_file>` as text: mended in parser.py.",
    "The stream was cut at `</think>`\nand the parser now drops it.",
    "User: wants the port to be 9191. Assistant: changed it in app.toml.",
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
    # The whole answer is a refusal, however long.
    (
        "I can't produce this summary as requested. Two parts of it conflict. " + "It asks for what I do not do. " * 60,
        ABOUT,
    ),
    ("I'm not going to produce this memory update: the same cycle repeats.", ABOUT),
    ("I appreciate the detail, but I won't write this hand-over note. " + "Here is why. " * 200, ABOUT),
    ("Thank you for sharing the conversation. How can I help you with it?", ABOUT),
    # It asks back, or speaks to whoever asked, in any language.
    ("Would you like me to go on with the refactor, or shall I write the tests first?", ABOUT),
    ("Shall I proceed with the migration?", ABOUT),
    ("好的，请把需要总结的对话发给我。", ABOUT),
    ("作为一个AI语言模型，我无法对此进行总结。", ABOUT),
    ("要約する会話を提供してください。", ABOUT),
    ("요약할 대화 내용을 제공해 주세요.", ABOUT),
    ("Bitte geben Sie das Gespräch ein, das ich zusammenfassen soll.", ABOUT),
    ("Por favor, proporcione la conversación que desea resumir.", ABOUT),
    ("Пожалуйста, предоставьте текст разговора.", ABOUT),
    ("Przepraszam, ale nie mogę podsumować tej rozmowy.", ABOUT),
    ("عذرًا، لا يمكنني تلخيص هذه المحادثة.", ABOUT),
    # The task or the transcript, said back.
    ("Write the hand-over note of the material above now, in at most 300 words.", ABOUT),
    ("[transcript 7f3a begins]\n[7f3a] (0) user: hello\n[transcript 7f3a ends]", ABOUT),
    ("Human: run the tests\n\nAssistant: I'll run them now.\n\nHuman: thanks", "not_prose"),
    # An error of whoever stands between.
    ('Error code: 400 - {"error": {"message": "prompt is too long"}}', "not_prose"),
    ("API Error: Connection error.", "not_prose"),
    ("503 Service Unavailable", "not_prose"),
    ("Error generating summary: Connection timed out", "not_prose"),
    ("Unable to generate summary.", "not_prose"),
    ("Previous conversation was too long to summarize.", "not_prose"),
    ("Rate limit exceeded. Please try again later.", "not_prose"),
    ("Your credit balance is too low to access the API.", "not_prose"),
    # Calls as models of other makers write them.
    ("Thought: I need the file.\nAction: read_file\nAction Input: {}", "not_prose"),
    ("I need the file first.\n\n<read_file>\n<path>src/a.py</path>\n</read_file>", "not_prose"),
    ('[bash(command="ls -la")]', "not_prose"),
    ("✿FUNCTION✿: bash\n✿ARGS✿: {}", "not_prose"),
    ("<｜DSML｜function_calls>\n<｜DSML｜invoke>", "not_prose"),
    # It was announced, or nodded at, and not written.
    ("Here is the summary:", "empty"),
    ("Summarizing the conversation...", "empty"),
    ("Understood.", "empty"),
    ("No response requested.", "empty"),
    ("## Goal\nN/A\n## Done\nNone\n", "empty"),
    ("## Goal\n[What the user wants]\n## Done\n- [What is finished]", "empty"),
    ("◁think▷let me see", "cut_off"),
    ("What matters is the port.\n</think>\n\n", "empty"),
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
    assert spoken(f"The user wants it streamed.\n</think>\n\n{said}") == said
    assert spoken(f"◁think▷hm◁/think▷{said}") == said
    assert with_index(f"<thinking>hm</thinking>{said}", []) == said


def test_three_dots_are_not_called_empty() -> None:
    assert verify_text("...", SPAN_TOKENS).ok


def test_a_summary_as_large_as_its_span_is_not_smaller() -> None:
    assert verify_text("four short words here", 6).reason == "not_smaller"


def test_an_answer_of_any_length_is_judged_at_once() -> None:
    started = time.perf_counter()
    for opening in ("Human: a\n", "<a_b><c>", "I can't ", "x" * 50 + "\n", "</think>", "[What\n", "# \n"):
        verify_text(opening * 20_000, 10**9)
    assert time.perf_counter() - started < 5
