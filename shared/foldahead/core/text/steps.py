"""Tool calls as steps: what was done to what, named in few words, secrets redacted."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from foldahead.core.messages import Call
from foldahead.core.redact import redact
from foldahead.core.text.entities import scanned
from foldahead.core.text.secret_arguments import without_typed_secrets
from foldahead.core.text.words import ends_of, one_line, shorten

LABEL_CHARS = 200
COMMAND = "$ "
"""How the label of a step begins that ran a command."""
OPEN_LABEL_CHARS = 800
SHORT_ARGUMENT_CHARS = 600
_EDITS = re.compile(
    r"edit|write|create|replace|patch|insert|apply|rename|delete|remove|move|save|update", re.IGNORECASE
)
_READS = re.compile(
    r"read|view|open|list|glob|grep|search|find|fetch|get|show|ls|cat|lookup|query|screenshot|status|outline",
    re.IGNORECASE,
)
_RUNS = re.compile(r"run|exec|test|check|build|lint|compile|shell|bash|terminal|command|deploy", re.IGNORECASE)
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
_SECRET_NAME = re.compile(r"pass|secret|token|key|auth|cred", re.IGNORECASE)  # the name says what `redact` must know


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
    kind = _kind(call.name, command, arguments)
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


def command_label(call: Call) -> str:
    """The label of a call's step where it runs a command; empty for any other."""
    command = _first(_arguments(call.arguments), _COMMAND_KEYS)
    return _command_label(command) if command else ""


def _command_label(command: str) -> str:
    return f"{COMMAND}{shorten(redact(one_line(command)), LABEL_CHARS)}"


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


def _arguments(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            value = json.loads(value) if value[:1] in ("{", "[") else value
    if isinstance(value, Mapping):
        return {str(key): item for key, item in without_typed_secrets(value).items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return {"": value} if value else {}


def _first(arguments: dict[str, Any], keys: tuple[str, ...]) -> str:
    for key in keys:
        value = arguments.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if key in _COMMAND_KEYS and isinstance(value, list) and value:
            return " ".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return ""


def _kind(name: str, command: str, arguments: dict[str, Any]) -> str:
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
        return _command_label(command)
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
    key = next(key for key in _PLAN_KEYS if isinstance(arguments.get(key), list))
    spelled: list[str] = []
    for item in arguments[key][:30]:
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
    except (RecursionError, TypeError, ValueError):
        return "[deeply nested]"
