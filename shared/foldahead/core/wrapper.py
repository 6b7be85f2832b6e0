"""The texts that foldahead puts into a view: a summary in its wrapper, and the marker of a truncation.

    <COMPACTION_SUMMARY model=anthropic:claude-haiku-5-5 watermark=42>
    (what this is, where it ends, that later messages win)
    ...
    </COMPACTION_SUMMARY>

The tags and their attributes are the first seed's, so that a log or an agent that knows them finds them.
Whatever is put inside is made safe first: nothing in it can close the wrapper or open another.
"""

import re

_SUMMARY = "COMPACTION_SUMMARY"
_TRUNCATED = "COMPACTION_TRUNCATED"
_INTRO = "[Summary in place of the conversation's first "

_SUMMARY_OPENING = re.compile(rf"<{_SUMMARY} model=[^\s<>]+ watermark=[0-9]+>\n")
_TRUNCATED_OPENING = re.compile(rf"<{_TRUNCATED} head=[0-9a-f]+ messages=[0-9]+>\n")
_SUMMARY_CLOSING = f"\n</{_SUMMARY}>"
_TRUNCATED_CLOSING = f"\n</{_TRUNCATED}>"

# A tag as a model might write or read it: any case, a slash or blanks or invisible characters in between,
# look-alike brackets. The bound keeps the scan linear.
_BLANK = r"\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_TAG = re.compile(
    rf"[<\uff1c\u2039\u3008](?=[{_BLANK}/\\]{{0,16}}COMPACTION[{_BLANK}_\-]{{0,4}}(?:SUMMARY|TRUNCATED))",
    re.IGNORECASE,
)
_NOT_IN_ATTRIBUTE = re.compile(r"[^\w.:/@+\-]")


def neutralise(text: str) -> str:
    """The text with every opening or closing tag of ours made harmless: its bracket becomes `[`."""
    return _TAG.sub("[", text)


def wrap(summary: str, model: str, watermark: int) -> str:
    """A summary as it stands in a view, in place of the first `watermark` messages of the history."""
    name = _NOT_IN_ATTRIBUTE.sub("_", model) or "unknown"
    intro = f"{_INTRO}{watermark} messages; it ends before message {watermark}. Later messages win over it.]"
    body = neutralise(summary).strip()
    return f"<{_SUMMARY} model={name} watermark={watermark}>\n{intro}\n{body}{_SUMMARY_CLOSING}"


def truncation_marker(head_hex: str, count: int) -> str:
    """What stands for `count` messages left out without a summary, up to the chain head given in hex."""
    return (
        f"<{_TRUNCATED} head={head_hex} messages={count}>\n"
        f"[The conversation's first {count} messages are left out here for want of room. "
        "Ask rather than guess at what they said.]"
        f"{_TRUNCATED_CLOSING}"
    )


def is_ours(text: str) -> bool:
    """Whether the whole text is one that `wrap` or `truncation_marker` made.

    Text around the tags, or a second pair of them, makes it somebody's who quotes us.
    """
    return _body(text) is not None


def is_summary(text: str) -> bool:
    """Whether the whole text is a summary of ours, a truncation marker excluded."""
    return text.startswith(f"<{_SUMMARY} ") and is_ours(text)


def unwrap(text: str) -> str:
    """The summary inside a wrapper of ours, without tags and first line; any other text as it is."""
    body = _body(text)
    if body is None:
        return text
    intro, _, summary = body.partition("\n")
    return summary if intro.startswith(_INTRO) else body


def _body(text: str) -> str | None:
    pairs = ((_SUMMARY_OPENING, _SUMMARY_CLOSING), (_TRUNCATED_OPENING, _TRUNCATED_CLOSING))
    for opening, closing in pairs:
        match = opening.match(text)
        if match and text.endswith(closing):
            body = text[match.end() : max(match.end(), len(text) - len(closing))]
            return None if _TAG.search(body) else body
    return None
