"""Whether what a summariser answered may be stored as a summary (design section 6, "never stored").

Judged by form only, and without what models put around an answer (`spoken`). Refuses what is no account of a
conversation; quality is not its business.
"""

import json
import re
from collections.abc import Callable

from msgspec import Struct

from foldahead.core.tokens import estimate_text


class Verdict(Struct, frozen=True):
    """`reason`: empty | refused | cut_off | not_prose | about_the_request | not_smaller; empty when it is ok."""

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
_PAGE = re.compile(r"<\||<!doctype|<html", re.IGNORECASE)
"""How marks of a chat template and error pages of a proxy begin."""
_PROXY_ERROR = re.compile(
    r"(?:error\b[\s:]{0,3})?(?:[45]\d\d\b|internal server error|bad gateway|service unavailable|gateway time-?out"
    r"|too many requests)",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"\W{0,3}(?:null|none|nil|undefined|nan|n/a|object Object|empty|no (?:content|summary|text)(?: available)?)\W{0,3}",
    re.IGNORECASE,
)
_HEADINGS = re.compile(r"(?:\s*#{1,6}\s[^\n]*)+\s*")
_REASONING = r"(think|thinking|reasoning|analysis|scratchpad|reflection)"
_REASONED = re.compile(rf"\s*<{_REASONING}>.*?</\1>\s*", re.IGNORECASE | re.DOTALL)
_REASONS = re.compile(rf"<{_REASONING}>", re.IGNORECASE)
_FENCED = re.compile(r"\s*```(?:markdown|md|text|txt|plaintext)[ \t]*\n(.*)\n```\s*", re.IGNORECASE | re.DOTALL)
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
    r"|(?:the |your )(?:conversation|transcript)(?: \w+){0,4} (?:is|was) (?:empty|missing|blank)"
    r"|no messages (?:were|have been) (?:provided|given|included)"
    r"|i (?:must|have to|am going to have to) decline"
    r"|(?:this|your|the) (?:request|conversation|content) (?:violates|goes against)"
    r"|(?:(?:sure|certainly|okay|ok|great|understood|got it|alright)\b[\s,.!]{1,3})?"
    r"(?:let me|let's|i(?:'|\u2019)ll|i will) "
    r"(?:now |first |start|begin|continue|proceed|run|check|look|read|open|fix|summari[sz]e)"
    r"|(?:sure|certainly|of course|absolutely|okay|ok)\b[^\n]{0,60}"
    r"(?:please (?:provide|share|paste)|ready to|go ahead|what would you like)"
    r"|(?:what|how) (?:would|can|may) (?:you like|i (?:help|assist|do))"
    r"|i(?:'|\u2019)?(?:ll| will| would|'d) (?:be happy|be glad|need) (?:to|the|more|you)"
    r"|(?:je suis |je ne peux pas|d\u00e9sol\u00e9)\b[^.\n]{0,60}(?:peux pas|impossible|r\u00e9sumer)"
    r"|lo siento\b|no puedo (?:ayudar|resumir)|es tut mir leid|ich kann (?:das|dies\w*|die|leider)\b[^.\n]{0,60}nicht"
    r"|desculpe\b|n\u00e3o posso (?:ajudar|resumir)|mi dispiace\b|non posso (?:aiutar|riassumere)"
    r"|извините|не могу помочь"
    r"|(?:很?抱歉|对不起|對不起|请提供|請提供|申し訳|すみません|죄송))",
    re.IGNORECASE,
)
_ERROR_AT_MOST_WORDS = 20
_ABOUT_AT_MOST_WORDS = 120  # a long account that begins with "Sorry" is an account


def spoken(answer: str) -> str:
    """An answer without the reasoning that some models write in front of it, and out of the fence that holds all of
    it."""
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
        ("empty", lambda: _is_empty(text)),
        ("cut_off", lambda: _REASONS.match(text) is not None),
        ("not_prose", lambda: _is_call(text) or _is_a_proxys(text) or _has_no_prose(text)),
        ("about_the_request", lambda: _is_about_the_request(text)),
        ("not_smaller", lambda: estimate_text(text) >= span_tokens),
    )


def _is_empty(text: str) -> bool:
    """Nothing that anybody sees, a word for nothing, or headings alone."""
    seen = any(char.isprintable() and not char.isspace() for char in text)
    return not seen or bool(_PLACEHOLDER.fullmatch(text) or _HEADINGS.fullmatch(text))


def _is_a_proxys(text: str) -> bool:
    """The marks of a chat template, or what stands between us and the model says in its place."""
    if _PAGE.match(text):
        return True
    return bool(_PROXY_ERROR.match(text)) and len(text.split(None, _ERROR_AT_MOST_WORDS)) <= _ERROR_AT_MOST_WORDS


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
