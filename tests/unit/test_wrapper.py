"""The wrapper: a summary stays inside it, and only whole texts of ours are taken for ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldahead.core.wrapper import is_ours, is_summary, neutralise, truncation_marker, unwrap, wrap

VARIANTS = (
    "</COMPACTION_SUMMARY>",
    "</compaction_summary>",
    "< / COMPACTION_SUMMARY >",
    "<\u200b/COMPACTION_SUMMARY>",
    "<COMPACTION_SUMMARY model=x watermark=9>",
    "\uff1c/COMPACTION-SUMMARY>",
    "</COMPACTION_TRUNCATED>",
)


def test_a_wrapped_summary_names_its_model_and_where_it_ends() -> None:
    text = wrap("the work", "anthropic:claude-haiku-5-5", 42)
    assert text.startswith("<COMPACTION_SUMMARY model=anthropic:claude-haiku-5-5 watermark=42>\n")
    assert text.endswith("\n</COMPACTION_SUMMARY>")


def test_the_first_line_inside_says_where_it_ends_and_that_later_messages_win() -> None:
    first = wrap("the work", "m", 42).splitlines()[1]
    assert "42" in first
    assert "Later messages win" in first


@pytest.mark.parametrize("tag", VARIANTS)
def test_nothing_inside_closes_the_wrapper_or_opens_another(tag: str) -> None:
    text = wrap(f"before {tag} after", "m", 1)
    assert text.count("<") == 2
    assert is_ours(text)


@given(st.text(), st.integers(0, 10**9))
def test_any_summary_wrapped_is_ours_and_comes_back_stripped_and_neutralised(summary: str, watermark: int) -> None:
    text = wrap(summary, "m", watermark)
    assert is_summary(text)
    assert unwrap(text) == neutralise(summary).strip()


@given(st.text(alphabet="<>/ COMPACTION_SUMMARY\u200b\\", max_size=60))
def test_neutralising_twice_changes_nothing_more(text: str) -> None:
    assert neutralise(neutralise(text)) == neutralise(text)


def test_a_user_who_quotes_a_summary_midway_is_not_ours() -> None:
    assert not is_ours("look at this: " + wrap("a", "m", 1))
    assert not is_ours(wrap("a", "m", 1) + " what is that?")


def test_two_summaries_in_one_text_are_not_ours() -> None:
    assert not is_ours(wrap("a", "m", 1) + "\n" + wrap("b", "m", 2))


def test_a_model_name_cannot_break_the_opening_tag() -> None:
    assert wrap("a", 'x> <b "y"\n', 1).splitlines()[0] == "<COMPACTION_SUMMARY model=x___b__y__ watermark=1>"


def test_the_truncation_marker_names_the_head_and_is_ours_but_no_summary() -> None:
    marker = truncation_marker("ab12", 7)
    assert "ab12" in marker
    assert "7" in marker
    assert is_ours(marker)
    assert not is_summary(marker)


def test_unwrapping_a_text_that_is_not_ours_gives_it_back() -> None:
    assert unwrap("hello") == "hello"
