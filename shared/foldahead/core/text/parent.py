"""What an earlier summary says, read back by its headings so that it can be folded into the next one."""

import re
from collections.abc import Sequence

from msgspec import Struct

from foldahead.core.index import unlisted
from foldahead.core.redact import redact
from foldahead.core.text.entities import Entity
from foldahead.core.text.outcomes import job_ids
from foldahead.core.text.pack import Line, line
from foldahead.core.text.steps import Step
from foldahead.core.text.stories import ASKED, PASSING
from foldahead.core.text.words import shorten

_HEADING = re.compile(r"^#{1,4}\s+(.+?)\s*:?\s*$")
# A model's headings are told by a word; those of `extract` contain one as well.
_SECTIONS = (
    ("goal", ("goal", "task", "request", "objective")),
    ("user", ("constraint", "correction", "user", "preference", "instruction")),
    ("decisions", ("decision", "finding", "why", "concept")),
    ("flight", ("flight", "current", "next", "pending", "background")),
    ("errors", ("question", "error", "problem", "issue", "unresolved")),
    ("references", ("reference", "index", "file")),
    ("memory", ("memory", "remember")),
    ("done", ("done", "progress", "complete", "work")),
)
_INDEX_LINE = re.compile(r"(?:Files|Commands|Ids|URLs|Errors|Folders and routes|Numbers|Names): ")
_SAID = "The user said: "  # the mechanical index of a model's summary
_AFTER_LABEL = re.compile(r" \(\d+ times\)|: (?:ok|failed|rejected|started)\b| -> ")
LINE_CHARS = 700


class Earlier(Struct):
    """The lines of an earlier summary by section; lines under no known heading are in `done`.

    `at`: the message that it came in, -1 for one from before the first message.
    """

    at: int
    sections: dict[str, list[str]]
    references: list[Entity]

    def section(self, name: str) -> list[str]:
        return self.sections.get(name, [])


def read_earlier(summary: str, at: int) -> Earlier:
    """An earlier summary taken apart. Points keep their continuation lines."""
    sections: dict[str, list[str]] = {}
    references: list[str] = []
    section = "done"
    for row in redact(summary).splitlines():
        if heading := _HEADING.match(row):
            section = _section_of(heading[1])
        elif row.startswith(_SAID):
            sections.setdefault("user", []).extend(f'"{text}"' for text in row[len(_SAID) :].strip('"').split('"; "'))
        elif section == "references" or _INDEX_LINE.match(row):
            references.append(row)
        elif row.strip():
            _append(sections.setdefault(section, []), row)
    return Earlier(at, sections, unlisted("\n".join(references)))


def _section_of(heading: str) -> str:
    lowered = heading.partition("(")[0].lower()
    for section, cues in _SECTIONS:
        if any(cue in lowered for cue in cues):
            return section
    return "done"


def _append(lines: list[str], line: str) -> None:
    if line.startswith(("  ", "\t")) and lines:
        lines[-1] = f"{lines[-1]}\n{line}"
    else:
        lines.append(shorten(line.strip().removeprefix("- ").removeprefix("* "), LINE_CHARS))


def merged(earlier: Sequence[Earlier], end: int) -> Earlier:
    """Several earlier summaries as one, those that came in before a message."""
    whole = Earlier(-1, {}, [])
    for one in earlier:
        if one.at < end:
            for name, lines in one.sections.items():
                whole.sections.setdefault(name, []).extend(lines)
            whole.references += one.references
    return whole


def carried(name: str, earlier: Earlier) -> list[Line]:
    """A section's lines as candidates, the newest first; in the summary they stand before all others."""
    return _lines(name, earlier.section(name))[::-1]


def carried_flight(earlier: Earlier, steps: Sequence[Step]) -> list[Line]:
    """What was in flight and may still be; what was said or planned last has been replaced since."""
    kept = [text for text in earlier.section("flight") if not text.startswith(PASSING)]
    jobs = [step.full for step in steps if step.state not in ("open", "background")]
    return _lines("flight", [text for text in kept if not any(job in full for job in job_ids(text) for full in jobs)])


def carried_errors(earlier: Earlier, steps: Sequence[Step]) -> list[Line]:
    """Errors that no later step on the same thing mended."""
    mended = {step.label for step in steps if step.state == "ok"}
    return _lines(
        "errors",
        [text for text in earlier.section("errors") if not text.startswith(ASKED) and _label(text) not in mended],
    )


def carried_done(earlier: Earlier, steps: Sequence[Step]) -> list[Line]:
    """What was done before, without what was done to the same thing again. The newest first."""
    again = {step.label for step in steps}
    return _lines("done", [text for text in earlier.section("done") if _label(text) not in again])[::-1]


def _lines(name: str, texts: list[str]) -> list[Line]:
    return [line(name, -1, seq, text) for seq, text in enumerate(texts)]


def _label(text: str) -> str:
    return _AFTER_LABEL.split(text, maxsplit=1)[0]
