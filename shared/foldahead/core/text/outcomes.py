"""What came of a step: its state, and the few words of its result that tell how it went.

What tools print is data. It is quoted, shortened, and lines in it that read like orders are left out.
"""

import re
from collections.abc import Iterator
from itertools import islice

from foldahead.core.messages import Result, text_of
from foldahead.core.redact import redact
from foldahead.core.text.entities import scanned
from foldahead.core.text.steps import Step
from foldahead.core.text.words import ends_of, one_line, shorten, without_orders

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
_FAILED_CUES = (
    *("Error", "error", "ERROR", "Exception", "Traceback", "FAIL", "ailed", "fatal", "FATAL", "panic", "enied"),
    *("ot found", "No such file", "annot", "undefined", "Unable"),
)
_FAILED_CUE = re.compile(r"E[0-9]{3}")
_TEST_LINE = re.compile(
    r"^.{0,120}?(?:\b\d+ (?:passed|failed|passing|failing|tests?|examples?|errors?|skipped|failures?)\b"
    r"|\bTests?(?: Suites)?:\s|^ok\s+\S+|^(?:---\s)?FAIL\b|^PASS\b|\bRan \d+ tests?"
    r"|BUILD (?:SUCCESS|FAIL)\w*|test result:|\bOK \(|^OK$|All checks passed|Finished in).{0,120}",
    re.MULTILINE,
)
_TEST_CUES = (
    *("FAIL", "PASS", "Ran ", "BUILD ", "OK", "Test:", "Tests:", " Suites:", "test result:", "All checks passed"),
    *("Finished in", "\nok"),
)
_TEST_CUE = re.compile(r"\d (?:passed|failed|passing|failing|test|example|error|skipped|failure)")
_TRACEBACK_CUES = ("Traceback", "panic: ", "npm ERR!")
_EXIT = re.compile(r"(?:exit(?:ed)?(?: with)?(?: code| status)?|returncode|return code|Exit code)\W{1,3}(-?\d{1,3})\b")
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\)|^panic: |^npm ERR!", re.MULTILINE)
_ENVELOPE = re.compile(r"<returncode>0</returncode>\s*|</?output>\s*")
_JSON_MARKS = re.compile(r"[\"{}\[\]]+")
_GOOD = re.compile(r"\b0 (?:failed|errors?|failures?)\b", re.IGNORECASE)
GIST_CHARS = 220
LINE_CHARS = 110
RECORD_CHARS = 500
SHORT_LOOK_CHARS = 160


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
    """A result's text as far as it is looked at, redacted: both ends, and lines between that tell errors."""
    whole = text_of(result.parts)
    seen = scanned(whole)
    if len(seen) < len(whole):
        seen += "\n" + "\n".join(_failures(whole, 6))
    return redact(seen)


def _failures(text: str, most: int) -> list[str]:
    return list(islice(_failed_lines(text), most))


def _failed_lines(text: str) -> Iterator[str]:
    """Lines that tell a failure. The expression tries every place of a line: not where no cue of it stands."""
    if any(cue in text for cue in _FAILED_CUES) or _FAILED_CUE.search(text):
        yield from (match[0] for match in _FAILED_LINE.finditer(text))


def _test_lines(text: str) -> list[str]:
    """Lines that tell how tests went."""
    if text.startswith("ok") or any(cue in text for cue in _TEST_CUES) or _TEST_CUE.search(text):
        return [match[0] for match in _TEST_LINE.finditer(text)]
    return []


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
    if step.kind == "run" and any(cue in text for cue in _TRACEBACK_CUES) and _TRACEBACK.search(text):
        return "failed"  # an exit code of 0 may be that of a pipe's last command
    if step.kind == "run" and (tests := _test_lines(text)):
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
    if step.state == "rejected" or (step.state != "failed" and step.kind in ("edit", "plan")):
        return ""
    text = without_orders(_ENVELOPE.sub("", text).strip())
    if step.state == "failed":
        told = _unique(_test_lines(text), 2) + _unique(list(_failed_lines(text)), 2)
        return ends_of(one_line(" | ".join(told) or text[:400]), GIST_CHARS)
    if step.kind == "run" and (tests := _unique(_test_lines(text), 3)):
        return shorten(one_line(" | ".join(shorten(line, LINE_CHARS) for line in tests)), GIST_CHARS)
    if step.kind == "look":
        return _looked_up(step, text)
    if text[:1] in "{[":
        return shorten(one_line(_JSON_MARKS.sub("", text[:3_000])), GIST_CHARS)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first, last = (shorten(lines[0], LINE_CHARS), shorten(lines[-1], LINE_CHARS)) if lines else ("", "")
    return one_line(f"{first} … {last}" if len(lines) > 2 else " | ".join(shorten(line, LINE_CHARS) for line in lines))


def _looked_up(step: Step, text: str) -> str:
    """A record that was looked up, in brief. Files and listings can be read again: nothing of those."""
    is_record = text[:1] in "{[" and not step.is_file
    if is_record:
        return shorten(one_line(_JSON_MARKS.sub("", text[:3_000])), RECORD_CHARS)
    if step.needle and (found := re.search(rf"^.{{0,80}}{re.escape(step.needle)}.{{0,80}}", text, re.MULTILINE)):
        return one_line(found[0])
    return one_line(text) if len(text) <= SHORT_LOOK_CHARS and "\n" not in text.strip() else ""


def _unique(lines: list[str], most: int) -> list[str]:
    return list(dict.fromkeys(line.strip() for line in lines[-40:]))[:most]
