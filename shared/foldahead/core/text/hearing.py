"""What user and assistant said, as candidate lines in order of choice: goal, the user's words, decisions."""

from collections.abc import Iterator, Sequence

from foldahead.core.text.pack import Line, line
from foldahead.core.text.talk import STRONG, Request, Said, Told, replaces, report, says_the_same
from foldahead.core.text.words import LEFT_OUT, one_line, shorten
from foldahead.core.tokens import estimate_text

_NEWEST = "newest request: "
_NOD_CHARS = 24
"""A user's message up to here ("yes, do it") is no request of its own; it is shown with what it answers."""
_MOST_NODS = 5
_CHARS_PER_TOKEN = 3
_DENSITY_CHARS = 1_000
"""As much of a text tells how dense its script is."""
_LEAST_GOAL_CHARS = 90
_MOST_DECISIONS = 40
_LEAST_REPORT_CHARS = 280


def goal_lines(earlier: list[str], requests: Sequence[Request], most_tokens: int) -> list[Line]:
    """The first request, an earlier summary's before any, and the newest one that is more than a nod."""
    first = [text for text in earlier if not text.startswith(_NEWEST)][:1]
    newest = [text for text in earlier if text.startswith(_NEWEST)][-1:]
    own = list(requests)
    if not first and own:
        opening = own.pop(0)
        lines = [line("goal", opening.at, 0, _indented(_goal(opening.text, most_tokens)))]
    else:
        lines = [line("goal", -1, 0, _goal(text, most_tokens)) for text in first]
    latest = next((item for item in reversed(own) if len(item.text) > _NOD_CHARS), None)
    if latest:
        return [*lines, line("goal", latest.at, 1, _NEWEST + _indented(_goal(latest.text, most_tokens * 2 // 3)))]
    return [*lines, *(line("goal", -1, 1, _goal(text, most_tokens)) for text in newest)]


def _goal(text: str, most_tokens: int) -> str:
    return shorten(text, max(_LEAST_GOAL_CHARS, _room_chars(text, most_tokens)))


def _room_chars(text: str, tokens: int) -> int:
    """How many characters of such a text so many tokens have room for: of Chinese a third of what it is of English."""
    if text.isascii():
        return tokens * _CHARS_PER_TOKEN
    beginning = text[:_DENSITY_CHARS]
    return int(tokens * min(_CHARS_PER_TOKEN, len(beginning) / estimate_text(beginning)))


def outlived(earlier: list[str], goal: list[Line]) -> list[str]:
    """What an earlier summary called the newest request and is none now: it stays among the user's words."""
    shown = {item.text for item in goal}
    return [text.removeprefix(_NEWEST) for text in earlier if text.startswith(_NEWEST) and text not in shown]


def user_lines(said: Sequence[Said], told: Sequence[Told], goal: list[Line]) -> Iterator[Line]:
    """The user's sentences: strong constraints, then constraints and facts, then the rest; newest first.

    What the goal shows already is not said twice.
    """
    shown = one_line(" ".join(item.text for item in goal))
    standing = _standing(said)
    questions = [item for item in told if item.kind == "question"]
    nods = 0
    for weight in (STRONG, 1, 0):
        for seq, item in reversed(standing):
            if item.weight != weight or item.text.partition(LEFT_OUT)[0].strip() in shown:
                continue
            spoken = _spoken(item, questions)
            nods += len(spoken) <= _NOD_CHARS and not weight
            if nods <= _MOST_NODS or len(spoken) > _NOD_CHARS or weight:
                yield line("user", item.at, seq, spoken)


def _standing(said: Sequence[Said]) -> list[tuple[int, Said]]:
    """The sentences that still hold: of the same words the newest, of two values for a thing the newest."""
    newest = {item.text.lower(): seq for seq, item in enumerate(said)}
    valued = [item for item in said if item.numbers]
    return [
        (seq, item)
        for seq, item in enumerate(said)
        if newest[item.text.lower()] == seq and not (item.numbers and any(replaces(later, item) for later in valued))
    ]


def _spoken(item: Said, questions: Sequence[Told]) -> str:
    asked = ""
    if len(item.text) <= _NOD_CHARS and item.at >= 0:
        asked = next((question.text for question in reversed(questions) if question.at < item.at), "")
    return f'"{item.text}" (asked: {asked})' if asked else item.quoted or f'"{item.text}"'


def decision_lines(told: Sequence[Told], most_tokens: int) -> Iterator[Line]:
    """The assistant's last two reports, then decisions, then earlier reports; each the newest first.

    `most_tokens` is the room for them all: the last report may take half of it, the one before a quarter.
    """
    reports = [(seq, item) for seq, item in enumerate(told) if item.kind == "report"][::-1]
    shown = ""
    for (seq, item), part in zip(reports[:2], (2, 4), strict=False):
        text = report(item.text, max(_LEAST_REPORT_CHARS, _room_chars(item.text, most_tokens) // part))
        shown += text
        yield line("decisions", item.at, seq, text)
    for seq, item in _distinct(told):
        if item.text not in shown:
            yield line("decisions", item.at, seq, item.text)
    for seq, item in reports[2:]:
        yield line("decisions", item.at, seq, report(item.text, _LEAST_REPORT_CHARS))


def _distinct(told: Sequence[Told]) -> Iterator[tuple[int, Told]]:
    """Decisions, the newest first, without those that say what a newer one says."""
    known: list[Told] = []
    for seq in range(len(told) - 1, -1, -1):
        item = told[seq]
        if len(known) == _MOST_DECISIONS:
            return
        if item.kind == "decision" and not any(says_the_same(item, other) for other in known):
            known.append(item)
            yield seq, item


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")
