"""What became of the steps of a span: done, in flight, failed; as candidate lines in order of choice."""

import re
from collections.abc import Iterator, Sequence

from foldahead.core.text.pack import Line, line
from foldahead.core.text.steps import Step
from foldahead.core.text.talk import Said, Told

_PROGRAM = re.compile(
    r"(?:cd\s+\S+\s*(?:&&|;)\s*|\w+=\S+\s+|sudo\s+|time\s+|timeout\s+\S+\s+)*([\w./\-]+)(?:\s+([\w./:\-]+))?"
)
_OPEN = "called, no result yet: "
_DEAD = "called and never answered: "
_MOST_DEAD = 3
_TASKS = "task list: "
_LAST = "the assistant last said: "
PASSING = (_OPEN, _DEAD, _TASKS, _LAST)
"""How lines begin that hold only until the next message."""
ASKED = "asked of the user, not answered yet: "
_TOLD = ("edit", "run", "look", "ask", "other")
_TOLD_ONE_BY_ONE = 3
_NAMED_IN_A_LINE = 10
_STATE_WORDS = {
    "ok": "ok",
    "failed": "failed",
    "rejected": "rejected by the user",
    "pending": "pending",
    "background": "started in the background",
}


def in_flight(steps: Sequence[Step], told: Sequence[Told], end: int) -> Iterator[Line]:
    """Calls without a result, pending ones, background jobs, the last task list and the last stated step."""
    yield from _unanswered(steps, told, end)
    for step in reversed(steps):
        if not 0 <= step.answered_at < end:
            continue
        if step.state == "pending":
            yield line("flight", step.at, 0, f"waiting: {step.full} -> the tool said: {_quoted(step.gist)}")
    plan = next((step for step in reversed(steps) if step.kind == "plan"), None)
    if plan:
        yield line("flight", plan.at, 1, f"{_TASKS}{plan.label}")
    for step in steps:
        if step.state != "background" or not 0 <= step.answered_at < end or 0 <= step.ended_at < end:
            continue
        yield line("flight", step.at, 2, f"background job: {step.label} -> {_quoted(step.gist)}")
    last = next((item for item in reversed(told) if item.kind == "plan"), None)
    if last:
        yield line("flight", last.at, 3, f"{_LAST}{last.text}")


def _unanswered(steps: Sequence[Step], told: Sequence[Told], end: int) -> Iterator[Line]:
    """Open calls; and a few of those that the conversation went past, which nothing will answer any more."""
    waiting = [step for step in reversed(steps) if not 0 <= step.answered_at < end]
    newest_at = max([*(step.at for step in steps[-1:]), *(item.at for item in told[-1:])], default=0)
    # One assistant message right behind the call may belong to the same turn: server tools answer there.
    dead = [step for step in waiting if newest_at > step.at + 1]
    for step in waiting[: len(waiting) - len(dead)]:
        yield line("flight", step.at, 0, f"{_OPEN}{step.full}")
    for step in dead[:_MOST_DEAD]:
        yield line("flight", step.at, 0, f"{_DEAD}{step.full}")


def done(steps: Sequence[Step], end: int) -> Iterator[Line]:
    """Steps by what they were about: changes, then runs, then what was looked up; each the newest first.

    Of one tool's many calls the newest are told, the others named.
    """
    stories: dict[tuple[str, str], list[Step]] = {}
    for step in steps:
        if step.kind in _TOLD and 0 <= step.answered_at < end and step.state != "pending":
            stories.setdefault((step.name, step.target), []).append(step)
    newest_first = sorted(stories.values(), key=lambda story: -story[-1].at)
    for kinds in (("edit",), ("run",), ("other", "ask"), ("look",)):
        yield from _told([story for story in newest_first if story[-1].kind in kinds])


def _told(stories: list[list[Step]]) -> Iterator[Line]:
    alike: dict[str, list[list[Step]]] = {}
    seen: dict[str, int] = {}
    for story in stories:
        last = story[-1]
        seen[last.name] = seen.get(last.name, 0) + 1
        plain = last.state == "ok" and not last.label.startswith("$ ") and last.about
        if plain and last.kind != "look" and (not last.gist or seen[last.name] > _TOLD_ONE_BY_ONE):
            alike.setdefault(last.name, []).append(story)
        elif told := _story(story):
            yield line("done", last.at, 0, told)
    for name, group in alike.items():
        for at in range(0, len(group), _NAMED_IN_A_LINE):
            part = group[at : at + _NAMED_IN_A_LINE][::-1]
            named = ", ".join(story[-1].about + _times(story) for story in part)
            yield line("done", part[-1][-1].at, 1, f"{name}, all ok: {named}")


def _story(story: list[Step]) -> str:
    last = story[-1]
    if last.kind == "look" and (not last.gist or last.state != "ok"):
        return ""
    times = _times(story)
    state = "" if last.state == "ok" and last.gist else f": {_STATE_WORDS.get(last.state, last.state)}"
    return f"{last.label}{times}{state}" + (f" -> {_quoted(last.gist)}" if last.gist else "")


def _times(story: list[Step]) -> str:
    return f" ({len(story)} times)" if len(story) > 1 else ""


def errors(steps: Sequence[Step], told: Sequence[Told], said: Sequence[Said], end: int) -> Iterator[Line]:
    """The assistant's question that nobody answered; what failed or was rejected and is not mended since."""
    asked = next((item for item in reversed(told) if item.kind == "question"), None)
    if asked and (not said or said[-1].at < asked.at):
        yield line("errors", asked.at, 0, f"{ASKED}{asked.text}")
    mended: set[str] = set()
    shown: set[str] = set()
    for step in reversed(steps):
        key = _story_key(step)
        if step.answered_at < 0 or step.answered_at >= end:
            continue
        if step.state == "ok":
            mended.add(key)
        elif step.state in ("failed", "rejected") and key not in mended and key not in shown:
            shown.add(key)
            word = "failed" if step.state == "failed" else "rejected by the user"
            yield line(
                "errors",
                step.at,
                0,
                f"{step.label}: {word}" + (f" -> {_quoted(step.gist)}" if step.gist else ""),
            )


def _story_key(step: Step) -> str:
    if step.kind in ("run", "look") and step.label.startswith("$ "):
        program = _PROGRAM.match(step.label[2:])
        return " ".join(filter(None, program.groups())) if program else step.target
    return step.target


def memory(steps: Sequence[Step], end: int) -> Iterator[Line]:
    """Where the work is, and the commands that went well more than once."""
    paths = [step.target for step in steps if step.target.startswith("/") and " " not in step.target]
    if len(paths) >= 3:
        root = _common_folder(paths)
        if root.count("/") >= 2:
            yield line("memory", 0, 0, f"the files are under {root}")
    counts: dict[str, int] = {}
    for step in steps:
        if step.kind == "run" and step.state == "ok" and 0 <= step.answered_at < end:
            counts[step.label] = counts.get(step.label, 0) + 1
    for label, count in sorted(counts.items(), key=lambda item: -item[1])[:3]:
        if count > 1:
            yield line("memory", 0, 1, f"worked {count} times: {label}")


def _common_folder(paths: list[str]) -> str:
    """The deepest folder that holds all of some absolute paths. The first and the last in order settle it."""
    first, last = min(paths).split("/"), max(paths).split("/")
    depth = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first) - 1)
    return "/".join(first[:depth])


def _quoted(text: str) -> str:
    return f'"{text}"' if text else '""'
