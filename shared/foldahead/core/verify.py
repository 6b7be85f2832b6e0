"""Whether what a summariser answered may be stored as a summary (design section 6, "never stored").

Judged by form only. Refuses what is no account of a conversation; quality is not its business.
"""

import json
import re
from collections.abc import Callable

from msgspec import Struct

from foldahead.core.tokens import estimate_text


class Verdict(Struct, frozen=True):
    """`reason`: empty | refused | cut_off | not_prose | about_the_request "
    "| not_smaller; empty when it is ok."""

    ok: bool
    reason: str = ""


# Stop reasons of the Claude API and finish reasons of OpenAI's, as their SDKs list them (2026-11).
_CUT_OFF = frozenset({"max_tokens", "length", "model_context_window_exceeded", "pause_turn"})
_REFUSED = frozenset({"refusal", "content_filter"})
_CALLED = frozenset({"tool_use", "tool_calls", "function_call"})

# Tags in which models write tool calls as text, with or without a namespace.
_CALL_TAG = re.compile(
    r"<\|?(?:\w{1,20}:)?(?:tool_calls?|tool_use|tool_code|function_calls?|function|invoke|tool_call_begin"
    r"|python_tag)"
    r"(?:_begin|_end)?(?=[\s>|=/])|\[TOOL_CALLS\]|<｜tool",
    re.IGNORECASE,
)
_CALL_INSIDE = re.compile(
    r"<(?:\w{1,20}:)?(?:tool_calls?|tool_use|function_calls?)>\s*[\[{<]|<(?:\w{1,20}:)?invoke name="
    r"|<function=",
    re.IGNORECASE,
)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_CALL_KEYS = re.compile(r'"(?:arguments|input|parameters|tool_calls?|function|tool_use_id)"\s*:')
_MARKUP = re.compile(r"<[^<>\n]{1,200}>")
_WORDS = re.compile(r"[^\W\d_]{2,}")

# An answer that speaks about being asked, at its very beginning.
_ABOUT = re.compile(
    r"(?:(?:i(?:'|\u2019)?m|i am)\s+(?:very\s+|so\s+)?(?:sorry|unable|afraid|not able)"
    r"|sorry\s*,?\s+(?:but\s+)?i\b|(?:my\s+)?apologies|i apologi[sz]e"
    r"|(?:unfortunately,?\s+)?i\s+(?:can(?:no|')?t|cannot|can\u2019t|won(?:'|\u2019)t|don(?:'"
    r"|\u2019)t\s+(?:see|have))\b"
    r"|as an ai\b|as a (?:large )?language model"
    r"|(?:please|could you|can you|would you)\s+(?:\w+\s+){0,2}(?:provide|share|paste|send|supply|clarify)"
    r"|(?:it (?:looks|seems|appears)(?: like| that)? |there (?:is|appears to be) )"
    r"(?:the |your |no )?(?:conversation|transcript|message)[^.\n]{0,60}"
    r"(?:empty|missing|blank|to summari[sz]e|not (?:included|provided))"
    r"|no (?:conversation|transcript)(?: \w+){0,3} (?:was|has been|is) (?:provided|given|included)"
    r"|(?:sure|certainly|of course|absolutely|okay|ok)\b[^\n]{0,60}"
    r"(?:please (?:provide|share|paste)|ready to|go ahead|what would you like)"
    r"|(?:what|how) (?:would|can|may) (?:you like|i (?:help|assist|do))"
    r"|i(?:'|\u2019)?(?:ll| will| would|'d) (?:be happy|be glad|need) (?:to|the|more|you)"
    r"|(?:很?抱歉|对不起|對不起|请提供|請提供|申し訳|すみません|죄송))",
    re.IGNORECASE,
)
_ABOUT_AT_MOST_WORDS = 120  # a long account that begins with "Sorry" is an account


def verify_text(text: str, span_tokens: int, stop_reason: str = "end_turn") -> Verdict:
    """The verdict on an answer that is to stand for a span of `span_tokens` tokens."""
    for reason, holds in _checks(text.strip(), span_tokens, stop_reason):
        if holds():
            return Verdict(False, reason)
    return Verdict(True)


def _checks(text: str, span_tokens: int, stop_reason: str) -> tuple[tuple[str, Callable[[], bool]], ...]:
    # In the order of what explains most: a refusal is also short, a cut-off answer may also be markup.
    return (
        ("refused", lambda: stop_reason in _REFUSED),
        ("cut_off", lambda: stop_reason in _CUT_OFF),
        ("not_prose", lambda: stop_reason in _CALLED),
        ("empty", lambda: not text),
        ("not_prose", lambda: _is_call(text) or _has_no_prose(text)),
        ("about_the_request", lambda: _is_about_the_request(text)),
        ("not_smaller", lambda: estimate_text(text) >= span_tokens),
    )


def _is_call(text: str) -> bool:
    """A tool call written as text: the answer begins with its markup, or carries a whole one outside of code.

    A tag merely named in a sentence is no call.
    """
    return bool(_CALL_TAG.match(text) or _CALL_INSIDE.search(_CODE.sub(" ", text)))


def _has_no_prose(text: str) -> bool:
    """Only JSON, only code, or only tags; text without any letters (`...`) is not judged here."""
    if text[0] in "{[" and (_is_json(text) or _CALL_KEYS.search(text)):
        return True
    if not _WORDS.search(text):
        return False
    bare = _MARKUP.sub(" ", _CODE.sub(lambda code: " " if code[0].startswith("```") else code[0], text))
    return not _WORDS.search(bare)


def _is_about_the_request(text: str) -> bool:
    opening = text.lstrip("#*_>- \n\"'")
    return bool(_ABOUT.match(opening)) and len(text.split(None, _ABOUT_AT_MOST_WORDS)) <= _ABOUT_AT_MOST_WORDS


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
