"""Spans that are read in parts: every message once, in order, none over the limit, turns whole where they fit."""

from hypothesis import given
from hypothesis import strategies as st

from foldahead.core.leaves import group_notes, split_span
from foldahead.core.messages import Call, Message, Result, Text
from foldahead.core.render import render_span
from foldahead.core.tokens import estimate_text

CAP = 400


def text_message(role: str, size: int) -> Message:
    return Message(role, (Text("word " * size),))


def turn(at: int, size: int) -> list[Message]:
    return [
        Message("assistant", (Text("word " * size), Call(str(at), "read", {"path": f"p{at}"}))),
        Message("user", (Result(str(at), (Text(f"content {at}"),)),)),
    ]


def test_a_span_that_fits_is_one_part_and_unchanged() -> None:
    span = tuple(turn(0, 10) + turn(1, 10))
    assert split_span(span, CAP, 10_000) == (span,)


def test_a_result_stays_with_its_call() -> None:
    span = [message for at in range(12) for message in turn(at, 120)]
    parts = split_span(span, CAP, 500)
    assert len(parts) > 2
    assert all(part[0].role == "assistant" for part in parts)


def test_a_turn_that_is_longer_than_a_part_is_cut_inside() -> None:
    call = Message("assistant", (Call("1", "read", {}),))
    results = [Message("user", (Result("1", (Text("x" * 390),)),)) for _ in range(20)]
    parts = split_span([call, *results], CAP, 600)
    assert sum(map(len, parts)) == 21


def test_a_giant_message_keeps_its_ends_and_says_what_went() -> None:
    giant = Message("user", (Text("BEGIN " + "word " * 50_000 + "END"),))
    ((cut,),) = split_span([giant], CAP, 1_000)
    assert isinstance(cut.blocks[0], Text)
    text = cut.blocks[0].text
    assert text.startswith("BEGIN")
    assert text.endswith("END")
    assert "characters of this message left out" in text


def test_a_secret_across_the_cut_of_a_giant_message_is_redacted_first() -> None:
    secret = "password = hunter2hunter2"
    giant = Message("user", (Text((secret + " word ") * 5_000),))
    ((cut,),) = split_span([giant], CAP, 1_000)
    assert isinstance(cut.blocks[0], Text)
    assert "hunter2" not in cut.blocks[0].text


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.integers(0, 400)), max_size=25))
def test_every_message_is_in_one_part_in_its_order(shapes: list[tuple[str, int]]) -> None:
    span = [text_message(role, size) for role, size in shapes]
    parts = split_span(span, CAP, 700)
    assert [message.role for part in parts for message in part] == [role for role, _ in shapes]


@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=25))
def test_no_part_is_over_the_limit(sizes: list[int]) -> None:
    parts = split_span([text_message("user", size) for size in sizes], CAP, 700)
    assert all(estimate_text(render_span(part, CAP, "n" * 20)) <= 760 for part in parts)


@given(st.lists(st.integers(1, 900), min_size=2, max_size=40))
def test_folding_notes_in_groups_comes_to_an_end(sizes: list[int]) -> None:
    notes = ["word " * size for size in sizes]
    groups = group_notes(notes, 500)
    assert [note for group in groups for note in group] == notes
    assert len(groups) < len(notes)
