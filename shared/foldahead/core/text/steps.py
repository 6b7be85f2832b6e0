"""Tool calls as steps: what was done to what, whether it has come back, and the few words that tell how it went.

What tools print is data. It is quoted, shortened, and lines in it that read like orders are left out.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from foldahead.core.messages import Call, Result, text_of
from foldahead.core.redact import redact
from foldahead.core.text.entities import scanned
from foldahead.core.text.words import ends_of, one_line, shorten, without_orders

LABEL_CHARS = 200
OPEN_LABEL_CHARS = 800
SHORT_ARGUMENT_CHARS = 600
GIST_CHARS = 220
LINE_CHARS = 110
RECORD_CHARS = 500
SHORT_LOOK_CHARS = 160

_EDITS = re.compile(
    r"edit|write|create|replace|patch|insert|apply|rename|delete|remove|move|save|update", re.IGNORECASE
)
_READS = re.compile(
    r"read|view|open|list|glob|grep|search|find|fetch|get|show|ls|cat|lookup|query|screenshot|status|outline",
    re.IGNORECASE,
)
_RUNS = re.compile(
    r"run|exec|test|check|build|lint|compile|shell|bash|terminal|command|deploy", re.IGNORECASE
)
_THINKS = re.compile(r"think|thought|reason", re.IGNORECASE)
_ASKS = re.compile(r"ask|approv|confirm|question|permission", re.IGNORECASE)
_PATH_KEYS = (
    "file_path",
    "path",
    "filename",
    "file",
    "notebook_path",
    "target_file",
    "filepath",
    "relative_path",
)
_COMMAND_KEYS = ("command", "cmd", "script", "commands", "shell_command")
_NEEDLE_KEYS = ("pattern", "query", "q", "regex", "search", "needle", "text", "keyword")
_PLAIN = re.compile(r"[\w .:/@#\-]{3,60}")
_PLAN_MARKS = {
    "completed": "x",
    "done": "x",
    "complete": "x",
    "in_progress": ">",
    "in-progress": ">",
    "active": ">",
}
_PLAN_KEYS = ("todos", "plan", "items", "tasks", "steps")
_READ_ONLY = re.compile(
    r"\s*(?:cd\s+\S+\s*(?:&&|;)\s*)?(?:\w+=\S+\s+)*(?:ls|cat|head|tail|grep|rg|find|pwd|wc|which|sed -n|awk"
    r"|nl|tree|stat|file|echo|type|env|printenv|du|df|ps"
    r"|git (?:diff|log|status|show|blame|branch|ls-files|grep|remote)|gh (?:\w+ )?(?:view|list|status|diff)"
    r"|docker ps|kubectl get)\b(?![^|]*>\s*[\w/.])"
)
_SECRET_NAME = re.compile(
    r"pass|secret|token|key|auth|cred", re.IGNORECASE
)  # the name says what `redact` must know
_PENDING = re.compile(
    r"\b(?:pending|awaiting|waiting (?:for|on)|needs? (?:your )?(?:approval|confirmation)"
    r"|requires? (?:approval|confirmation)|in[ _]review)\b",
    re.IGNORECASE,
)
_BACKGROUND = re.compile(
    r"running in (?:the )?background|started in (?:the )?background|background (?:process|task|job)"
    r"|\bjob id\b",
    re.IGNORECASE,
)
_JOB_ID = re.compile(r"\b(?:ID|id|pid|PID|task|shell|job)\W{1,3}([\w\-]{3,40})")
_ENDED = re.compile(r"complet|kill|exit|finish|fail|stopp|terminat", re.IGNORECASE)
_REJECTED = re.compile(
    r"user (?:doesn't|does not|didn't) want|rejected by (?:the )?user|tool use was rejected|user (?:denied"
    r"|rejected|declined)",
    re.IGNORECASE,
)
_FAILED_LINE = re.compile(
    r"^.{0,200}?(?:\b(?:[A-Za-z]*Error|[A-Za-z]*Exception|Traceback|FAIL(?:ED|URE)?|fatal|panic|FATAL|ERROR"
    r"|Error|error|denied|Denied|[Nn]ot found"
    r"|No such file|[Cc]annot|undefined|Unable|[Ff]ailed|E[0-9]{3,5})\b).{0,160}",
    re.MULTILINE,
)
_TEST_LINE = re.compile(
    r"^.{0,120}?(?:\b\d+ (?:passed|failed|passing|failing|tests?|examples?|errors?|skipped|failures?)\b"
    r"|\bTests?(?: Suites)?:\s|^ok\s+\S+|^(?:---\s)?FAIL\b|^PASS\b|\bRan \d+ tests?"
    r"|BUILD (?:SUCCESS|FAIL)\w*|test result:|\bOK \(|^OK$|All checks passed|Finished in).{0,120}",
    re.MULTILINE,
)
_EXIT = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: code| status)?|returncode|return code|Exit code)\W{1,3}(-?\d{1,3})\b"
)
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\)|^panic: |^npm ERR!", re.MULTILINE)
_ENVELOPE = re.compile(r"<returncode>0</returncode>\s*|</?output>\s*")
_JSON_MARKS = re.compile(r"[\"{}\[\]]+")
_GOOD = re.compile(r"\b0 (?:failed|errors?|failures?)\b", re.IGNORECASE)


class Step(Struct):
    """One call and what came of it. `state`: open | ok | failed | rejected | pending | background."""

    at: int
    id: str
    name: str
    kind: str
    """edit | run | look | plan | ask | think | other"""
    label: str
    target: str
    """File or command that it was about: steps on one target are one story."""
    about: str
    """The short argument values, for naming a step among many alike."""
    needle: str
    """What a search looks for, where it is plain text."""
    is_file: bool
    full: str
    """The call with its arguments at length, for one that is still open."""
    answered_at: int = -1
    state: str = "open"
    gist: str = ""
    ended_at: int = -1
    """For a background job: the message that told its end."""


def step_of(call: Call, at: int) -> Step:
    """The step that a call begins."""
    arguments = _arguments(call.arguments)
    path = _first(arguments, _PATH_KEYS)
    command = _first(arguments, _COMMAND_KEYS)
    kind = _kind(call.name, path, command, arguments)
    label = _label(call.name, arguments, path, command, kind)
    full = redact(f"{call.name}({_spelled(arguments, OPEN_LABEL_CHARS // 2)})")
    needle = _first(arguments, _NEEDLE_KEYS)
    return Step(
        at=at,
        id=call.id,
        name=call.name,
        kind=kind,
        label=label,
        target=one_line(path or command or label)[:200],
        about=redact(_about(arguments, path)),
        needle=needle if _PLAIN.fullmatch(needle) else "",
        is_file=bool(path or command),
        full=ends_of(full, OPEN_LABEL_CHARS),
    )


def settle(step: Step, result: Result, at: int, text: str) -> None:
    """Writes into a step what its result says. `text` is the result's text, scanned and redacted."""
    step.answered_at = at
    step.state = _state(result, text, step)
    step.gist = _gist(step, text)


def job_ids(text: str) -> list[str]:
    """The ids by which a background job is named in what its start printed."""
    return _JOB_ID.findall(text[:2_000])


def tells_an_end(text: str) -> bool:
    """Whether a text about a job says that it has ended."""
    return bool(_ENDED.search(text))


def result_text(result: Result) -> str:
    """A result's text as far as it is looked at, secrets redacted: both ends, and lines of the middle that tell of errors."""
    whole = text_of(result.parts)
    seen = scanned(whole)
    if len(seen) < len(whole):
        seen += "\n" + "\n".join(_failures(whole, 6))
    return redact(seen)


def argument_texts(call: Call) -> tuple[str, str]:
    """A call's short arguments and its long ones, each as one text, secrets redacted."""
    short: list[str] = []
    long: list[str] = []
    for key, value in _arguments(call.arguments).items():
        spelled = value if isinstance(value, str) else _value(value, 8_000)
        (short if len(spelled) <= SHORT_ARGUMENT_CHARS else long).append(
            f"{key}={spelled}" if _SECRET_NAME.search(key) else spelled
        )
    return redact("\n".join(short)), redact(scanned("\n".join(long)))


def _failures(text: str, most: int) -> list[str]:
    found: list[str] = []
    for match in _FAILED_LINE.finditer(text):
        found.append(match[0])
        if len(found) == most:
            break
    return found


def _arguments(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value) if value[:1] in "{[" else value
        except (ValueError, RecursionError):
            pass
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return {"": value} if value else {}


def _first(arguments: dict[str, Any], keys: tuple[str, ...]) -> str:
    for key in keys:
        value = arguments.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if key in _COMMAND_KEYS and isinstance(value, list) and value:
            return " ".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return ""


def _kind(name: str, path: str, command: str, arguments: dict[str, Any]) -> str:
    if any(isinstance(arguments.get(key), list) for key in _PLAN_KEYS) and re.search(
        r"todo|plan|task", name, re.IGNORECASE
    ):
        return "plan"
    if command:
        return "look" if _READ_ONLY.match(command) else "run"
    if _THINKS.match(name):
        return "think"
    if _ASKS.search(name):
        return "ask"
    if _EDITS.search(name):
        return "edit"
    if _READS.search(name):
        return "look"
    return "run" if _RUNS.search(name) else "other"


def _label(name: str, arguments: dict[str, Any], path: str, command: str, kind: str) -> str:
    if command:
        return f"$ {shorten(redact(one_line(command)), LABEL_CHARS)}"
    if kind == "plan":
        return _plan(arguments)
    if path and kind in ("edit", "look"):
        return f"{name} {redact(one_line(path))[:LABEL_CHARS]}"
    return shorten(redact(f"{name}({_spelled(arguments, 90)})"), LABEL_CHARS)


def _about(arguments: dict[str, Any], path: str) -> str:
    """Values short enough to name a step by, the path alone where there is one."""
    values = [one_line(str(value)) for value in arguments.values() if isinstance(value, str | int | float)]
    return path[:LABEL_CHARS] or " ".join(value for value in values if 0 < len(value) <= 40)[:80]


def _plan(arguments: dict[str, Any]) -> str:
    """A task list in few words: `[x] done; [>] in progress; [ ] to do`."""
    items = next((arguments[key] for key in _PLAN_KEYS if isinstance(arguments.get(key), list)), [])
    spelled: list[str] = []
    for item in items[:30]:
        fields = _arguments(item)
        text = _first(fields, ("content", "step", "title", "task", "text", "description", "name", ""))
        mark = _PLAN_MARKS.get(str(fields.get("status", "")).lower(), " ")
        spelled.append(f"[{mark}] {shorten(one_line(text), 120)}")
    return redact("; ".join(spelled))


def _spelled(arguments: dict[str, Any], most_chars: int) -> str:
    return ", ".join(
        f"{key}={_value(value, most_chars)}" if key else _value(value, most_chars)
        for key, value in list(arguments.items())[:20]
    )


def _value(value: Any, most_chars: int) -> str:
    if isinstance(value, str):
        return shorten(one_line(value[: most_chars * 4]), most_chars)
    try:
        return shorten(json.dumps(value, ensure_ascii=False, default=repr), most_chars)
    except (RecursionError, ValueError):
        return "[deeply nested]"


def _state(result: Result, text: str, step: Step) -> str:
    head = text[:600]
    if _REJECTED.search(head):
        return "rejected"
    if len(text) < 1_000:
        if _PENDING.search(head) and step.kind in ("ask", "other", "run"):
            return "pending"
        if _BACKGROUND.search(head):
            return "background"
    if result.is_error:
        return "failed"
    exit_code = _EXIT.search(text[:300]) or _EXIT.search(text[-300:])
    if exit_code and exit_code[1] != "0":
        return (
            "ok" if step.kind == "look" and exit_code[1] == "1" and len(text) < 80 else "failed"
        )  # grep found nothing
    if step.kind == "run" and _TRACEBACK.search(text):
        return "failed"  # an exit code of 0 may be that of a pipe's last command
    if step.kind == "run" and (tests := _TEST_LINE.findall(text)):
        return "failed" if any("fail" in line.lower() and not _GOOD.search(line) for line in tests) else "ok"
    if (
        text.lstrip()[:40]
        .lower()
        .startswith(("error", "traceback", "fatal", "failed", "exception", "<error", "<tool_use_error"))
    ):
        return "failed"
    return "ok"


def _gist(step: Step, text: str) -> str:
    """The line or two of a result that tell how it went; nothing where the state says it all."""
    text = without_orders(_ENVELOPE.sub("", text).strip())
    if step.state == "rejected":
        return ""
    if step.state == "failed":
        return ends_of(
            one_line(" | ".join(_unique(_TEST_LINE, text, 2) + _unique(_FAILED_LINE, text, 2)) or text[:400]),
            GIST_CHARS,
        )
    if step.kind == "run" and (tests := _unique(_TEST_LINE, text, 3)):
        return shorten(one_line(" | ".join(shorten(line, LINE_CHARS) for line in tests)), GIST_CHARS)
    if step.kind in ("edit", "plan"):
        return ""
    if step.kind == "look":
        return _looked_up(step, text)
    if text[:1] in "{[":
        return shorten(one_line(_JSON_MARKS.sub("", text[:3_000])), GIST_CHARS)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first, last = (shorten(lines[0], LINE_CHARS), shorten(lines[-1], LINE_CHARS)) if lines else ("", "")
    return one_line(
        f"{first} … {last}" if len(lines) > 2 else " | ".join(shorten(line, LINE_CHARS) for line in lines)
    )


def _looked_up(step: Step, text: str) -> str:
    """A record that was looked up, in brief. Files and listings can be read again: nothing of those."""
    is_record = text[:1] in "{[" and not step.is_file
    if is_record:
        return shorten(one_line(_JSON_MARKS.sub("", text[:3_000])), RECORD_CHARS)
    if step.needle and (
        found := re.search(rf"^.{{0,80}}{re.escape(step.needle)}.{{0,80}}", text, re.MULTILINE)
    ):
        return one_line(found[0])
    return one_line(text) if len(text) <= SHORT_LOOK_CHARS and "\n" not in text.strip() else ""


def _unique(pattern: "re.Pattern[str]", text: str, most: int) -> list[str]:
    return list(dict.fromkeys(match[0].strip() for match in list(pattern.finditer(text))[-40:]))[:most]
