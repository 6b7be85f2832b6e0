"""What user and assistant said, as sentences with what kind each is."""

import re

from msgspec import Struct

from foldahead.core.text.words import (
    CONSTRAINT,
    DECISION,
    PLAN,
    STRONG_CONSTRAINT,
    ends_of,
    is_prose,
    one_line,
    sentences,
    shorten,
)

SHORT_MESSAGE_CHARS = 1_500
"""A user's message up to here is kept sentence by sentence, of a longer one the ends and the constraints."""
SENTENCE_CHARS = 500
MOST_SENTENCES = 60
MOST_SCANNED_CHARS = 60_000
HARNESS_CHARS = 20_000

STRONG = 2
"""The weight of a sentence that forbids, demands or corrects."""
REPORT_CHARS = 6_000
REQUEST_CHARS = 3_000
_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_HARNESS = re.compile(
    r"<(system[-_](?:reminder|notification)|local-command-stdout|local-command-stderr|bash-stdout|bash-stderr"
    r"|command-message|command-contents|new-diagnostics|user-prompt-submit-hook|task_metadata"
    r"|environment_(?:details|context|info)|workspace_info|user_info|additional_data|project_layout"
    r"|open_and_recently_viewed_files|reminderInstructions|editorContext|ide_\w+)>"
    r".*?(?:</\1>|\Z)",
    re.DOTALL,
)
_NOTICE = "<task-notification>"
_INTERRUPTED = re.compile(r"\[Request interrupted by user[^\]]*\]")
_TAG = re.compile(
    r"</?(?:command-name|command-args|bash-input|user_query|user-message|user_message|task|feedback|answer)>"
)
_QUOTED = re.compile(r'"(.*)"(?: \(asked: .*\))?$', re.DOTALL)
_WORD = re.compile(r"[^\W\d_]{3,}")
_NUMBER = re.compile(r"(?<![\w\-./])\d+(?:[.,:]\d+)*(?![\w\-/])")
_NAME_WITH_DIGITS = re.compile(r"[\w./\-]*[^\W\d][\w./\-]*\d[\w./\-]*|\d+[\-/_.]*[^\W\d][\w./\-]*")
_SCRIPT = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7ff]{2}")
_STOP_WORDS = frozenset(
    (
        "the and for with you your that this use please should must are was not have has can will instead"
        " make let set now then from into its all any but our rather actually"
    ).split()
)


class Said(Struct):
    """A sentence of the user's. `weight`: 2 a strong constraint, 1 a constraint or fact, 0 anything else."""

    at: int
    text: str
    weight: int
    words: frozenset[str]
    numbers: frozenset[str]
    names: frozenset[str]
    """Names with digits in them (`t_3`, `INV-20931`): not values, they tell what a sentence is about."""
    quoted: str = ""
    """The whole line where an earlier summary has more than the sentence (what it answers)."""


class Told(Struct):
    """A sentence or a report of the assistant's. `kind`: report | decision | question | plan."""

    at: int
    text: str
    kind: str
    words: frozenset[str]


def without_harness(text: str) -> str:
    """A user's message without what the agent's harness put into it."""
    if "<" not in text and "[Request" not in text:
        return text
    if text.lstrip().startswith(_NOTICE):
        return ""
    return _INTERRUPTED.sub("", _TAG.sub(" ", _HARNESS.sub(" ", text))).strip()


def is_harness_alone(text: str) -> bool:
    """Whether the user said nothing in a text: all of it came from the agent's harness. Told for short ones."""
    return len(text) <= HARNESS_CHARS and text.lstrip()[:1] in ("<", "[") and not without_harness(text)


class Request(Struct):
    """A user's message at some length, for the goal: the first and the newest say what a span is about."""

    at: int
    text: str


def request(text: str, at: int) -> Request:
    """The message with its lines, blank ones left out."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return Request(at, shorten("\n".join(lines), REQUEST_CHARS))


def said(text: str, at: int) -> list[Said]:
    """The user's sentences worth keeping, in order."""
    if len(text) <= SHORT_MESSAGE_CHARS:
        pieces = sentences(text)
        return [_said(piece, at) for piece in pieces[:MOST_SENTENCES]]
    kept = [_said(shorten(one_line(text), 240), at)]
    for piece in sentences(text[:MOST_SCANNED_CHARS]):
        if is_prose(piece) and STRONG_CONSTRAINT.search(piece):
            kept.append(_said(piece, at))
        if len(kept) == MOST_SENTENCES:
            break
    known = {item.text for item in kept}
    return [
        *kept,
        *(item for piece in sentences(text[-600:])[-2:] if (item := _said(piece, at)).text not in known),
    ]


def said_before(lines: list[str]) -> list[Said]:
    """The user's sentences as an earlier summary quotes them: before all others, shown as they were."""
    found: list[Said] = []
    for text in lines:
        quoted = _QUOTED.match(text)
        item = _said(quoted[1] if quoted else text, -1)
        item.quoted = text if quoted else ""
        found.append(item)
    return found


def _said(piece: str, at: int) -> Said:
    piece = ends_of(one_line(piece), SENTENCE_CHARS)
    weight = STRONG if STRONG_CONSTRAINT.search(piece) else 1 if CONSTRAINT.search(piece) else 0
    return Said(
        at,
        piece,
        weight,
        _words(piece),
        frozenset(_NUMBER.findall(piece)),
        frozenset(_NAME_WITH_DIGITS.findall(piece)),
    )


def _words(text: str) -> frozenset[str]:
    words = {word.lower() for word in _WORD.findall(text)} | set(_SCRIPT.findall(text))
    return frozenset(words - _STOP_WORDS)


def replaces(newer: Said, older: Said) -> bool:
    """Whether a later sentence gives another value for the same thing: then the older one is not shown."""
    if newer.at <= older.at or newer.numbers == older.numbers or newer.names != older.names:
        return False
    common = len(newer.words & older.words)
    return common >= 2 and common >= 0.7 * len(older.words) and common >= 0.5 * len(newer.words)


def told(text: str, at: int, *, calls: bool) -> list[Told]:
    """What outlives the turn of what the assistant said: a report at its end, decisions, questions, plans."""
    found: list[Told] = []
    if not calls and len(text) > 80:
        found.append(Told(at, _report(text), "report", frozenset()))
    pieces = [piece for piece in sentences(text[:6_000]) if len(piece) > 12]
    for piece in pieces:
        if piece.endswith(("?", "？")):
            if not calls:
                found.append(_told(shorten(piece, 240), at, "question"))
        elif DECISION.search(piece) and is_prose(piece) and len(found) < 8:
            found.append(_told(shorten(piece, 280), at, "decision"))
    plans = [piece for piece in pieces if PLAN.search(piece)]
    last = plans[-1] if plans else pieces[-1] if pieces else ""
    if last:
        found.append(_told(shorten(last, 300), at, "plan"))
    return found


def _told(text: str, at: int, kind: str) -> Told:
    text = one_line(text)
    return Told(at, text, kind, _words(text))


def says_the_same(told: Told, other: Told) -> bool:
    """Whether two sentences are made of nearly the same words."""
    common = len(told.words & other.words)
    return common >= 3 and common >= 0.7 * min(len(told.words), len(other.words))


def report(text: str, most_chars: int) -> str:
    """A report's first lines, up to so many characters, with a count of the lines that went."""
    lines = [line for line in text.split("\n") if line]
    kept: list[str] = []
    room = most_chars
    for line in lines:
        if len(line) > room:
            break
        kept.append(line)
        room -= len(line) + 3
    if not kept:
        return shorten(one_line(text), most_chars)
    left = len(lines) - len(kept)
    return " / ".join(kept) + (f" [… {left} lines left out …]" if left else "")


def _report(text: str) -> str:
    """The lines of a report that may be shown: without code blocks, at most `REPORT_CHARS`."""
    lines = (one_line(line) for line in _CODE_BLOCK.sub("", text).splitlines())
    return "\n".join(filter(None, lines))[:REPORT_CHARS]
