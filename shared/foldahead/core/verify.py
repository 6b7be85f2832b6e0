"""Whether what a summariser answered may be stored as a summary (design section 6, "never stored").

Judged by form only, and without what models put around an answer (`spoken`). Refuses what is no account of a
conversation (`text.answers`); quality is not its business.
"""

import re
from collections.abc import Callable

from msgspec import Struct

from foldahead.core.text.answers import has_no_prose, is_about_the_request, is_an_error, is_call, says_nothing
from foldahead.core.tokens import estimate_text


class Verdict(Struct, frozen=True):
    """`reason`: empty | refused | cut_off | not_prose | about_the_request | not_smaller; empty when it is ok."""

    ok: bool
    reason: str = ""


# Stop reasons of the Claude API and finish reasons of OpenAI's, as their SDKs list them (2026-11).
_CUT_OFF = frozenset({"max_tokens", "length", "model_context_window_exceeded", "pause_turn"})
_REFUSED = frozenset({"refusal", "content_filter"})
_CALLED = frozenset({"tool_use", "tool_calls", "function_call"})

_NAMES = "(?:seed:)?(?:think|thinking|reasoning|analysis|scratchpad|reflection)"
_REASONED = re.compile(rf"\s*[<◁](?P<name>{_NAMES})[>▷].*?[<◁]/(?P=name)[>▷]\s*", re.IGNORECASE | re.DOTALL)
_REASONS = re.compile(rf"[<◁]{_NAMES}[>▷]", re.IGNORECASE)
_REASONED_BEFORE = re.compile(r"(?:(?!<think)(?!`</think>).)*?</think>[ \t]*(?:\n\s*|\Z)", re.IGNORECASE | re.DOTALL)
"""Some templates put the opening tag in the prompt: the answer has the closing one alone."""
_FENCED = re.compile(r"\s*```(?:markdown|md|text|txt|plaintext)[ \t]*\n(.*)\n```\s*", re.IGNORECASE | re.DOTALL)


def spoken(answer: str) -> str:
    """An answer without the reasoning that some models write in front of it, and out of the fence that holds all of
    it."""
    if found := _REASONED_BEFORE.match(answer):
        answer = answer[found.end() :]
    while found := _REASONED.match(answer):
        answer = answer[found.end() :]
    fenced = _FENCED.fullmatch(answer)
    return (fenced[1] if fenced else answer).strip()


def verify_text(text: str, span_tokens: int, stop_reason: str = "end_turn") -> Verdict:
    """The verdict on an answer that is to stand for a span of `span_tokens` tokens."""
    for reason, holds in _checks(spoken(text), span_tokens, stop_reason):
        if holds():
            return Verdict(False, reason)
    return Verdict(True)


def _checks(text: str, span_tokens: int, stop_reason: str) -> tuple[tuple[str, Callable[[], bool]], ...]:
    # In the order of what explains most: a refusal is also short, a cut-off answer may also be markup.
    return (
        ("refused", lambda: stop_reason in _REFUSED),
        ("cut_off", lambda: stop_reason in _CUT_OFF),
        ("not_prose", lambda: stop_reason in _CALLED),
        ("empty", lambda: says_nothing(text)),
        ("cut_off", lambda: _REASONS.match(text) is not None),
        ("not_prose", lambda: is_call(text) or is_an_error(text) or has_no_prose(text)),
        ("about_the_request", lambda: is_about_the_request(text)),
        ("not_smaller", lambda: estimate_text(text) >= span_tokens),
    )
