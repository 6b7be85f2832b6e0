"""Exact references in a text: URLs, files, ids, error names, numbers with a meaning, names; found by rules.

One compiled pass over at most `SCANNED_CHARS` of a text. Order is the order of appearance, each once.
"""

import re

from msgspec import Struct

SCANNED_CHARS = 24_000
"""Of a longer text the beginning and the end are looked at: what matters of a fat result stands there."""
MOST_PER_TEXT = 200
LONGEST_CHARS = 160


class Entity(Struct, frozen=True):
    """An exact reference. `kind`: url | file | id | error | route | number | name | command."""

    kind: str
    text: str


# A name with one of these is a file even without a folder. No single letters: `self.t` is no file.
_BARE_EXTENSIONS = (
    "py|pyi|ipynb|go|rs|ts|tsx|js|jsx|mjs|cjs|java|kt|kts|scala|rb|php|cc|cpp|hpp|cs|swift|ex|exs|heex|eex"
    "|erl|hs|ml|clj|lua"
    "|sh|bash|zsh|ps1|bat|sql|html|htm|css|scss|less|vue|svelte|json|jsonl|json5|yaml|yml|toml|ini|cfg|lock"
    "|xml|csv|tsv"
    "|parquet|md|mdx|rst|txt|log|proto|graphql|tf|hcl|gradle|properties|dockerfile|cmake|pdf|png|jpg|jpeg"
    "|svg|gif|xlsx|docx"
    "|pptx|zip|tar|gz|sqlite|diff|patch|tmpl|j2|feature|raku|rakumod|plist|pem|crt"
)
_EXTENSIONS = rf"{_BARE_EXTENSIONS}|conf|c|h|m|mm|r|t|pl|pm|jl|db|env|mk|mod|sum|output"
_SEGMENT = r"[\w.@+\-\[\]]{1,80}+"
_ERRNO = "E(?:NOENT|ACCES|XIST|PERM|ADDRINUSE|CONNREFUSED|CONNRESET|TIMEDOUT|PIPE|INVAL|NOSPC|MFILE|BUSY)"
_EXACT = (
    r"(?P<url>\b[a-z][a-z0-9+.\-]{1,12}+://[^\s\"'<>()\[\]{}`|\\,;]{3,300}+)"
    rf"|(?P<path>(?<![\w/.\-:])(?:[A-Za-z]:[\\/]|~/|\.{{1,2}}/|/)?(?:{_SEGMENT}/){{1,24}}+[\w.@+\-]{{0,80}}+)"
    r"|(?P<route>(?<![\w/<.\-:])/[A-Za-z][\w\-]{2,40}+(?![\w/>]))"
    rf"|(?P<file>\b[\w\-]{{1,60}}+(?:\.[\w\-]{{1,30}})?\.(?:{_BARE_EXTENSIONS})\b(?![\w(]))"
    r"|(?P<uuid>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)"
    rf"|(?P<error>\b(?:[A-Z][a-zA-Z]{{1,50}}(?:Error|Exception|Failure|Timeout)|{_ERRNO}|E[0-9]{{3,6}}"
    rf"|[A-Z]{{2,5}}[0-9]{{4,6}}|SIG[A-Z]{{3,5}})\b)"
    r"|(?P<hash>\b(?=[0-9]{0,39}[a-f])(?=[a-f]{0,39}[0-9])[0-9a-f]{7,64}\b)"
    r"|(?P<issue>\b[A-Z][A-Z0-9]{1,9}-[0-9]{1,8}\b|(?<![\w&#])#[0-9]{1,7}\b)"
    r"|(?P<code>\b(?=[A-Z]{0,11}[0-9])(?=[0-9]{0,11}[A-Z])(?![0-9]{2}T[0-9]{2}\b)[A-Z0-9]{5,14}\b)"
    r"|(?P<snake>\b[a-z]{2,20}(?:_[a-z]{2,20}){0,4}_[0-9]{3,16}\b"
    r"|\b[a-z]{2,20}(?:-[a-z]{2,20}){0,4}-[0-9]{4,16}\b|\b[a-z]{2,10}_[A-Za-z0-9]{16,40}\b)"
    r"|(?P<version>\bv?[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,6}(?:[\w.\-+]{0,20})\b)"
    r"|(?P<number>(?<![\w.#])[$€£]?[0-9]{1,3}(?:[,_][0-9]{3})+(?:\.[0-9]+)?%?"
    r"|(?<![\w.\-#/:])[$€£]?[0-9]{1,12}(?:\.[0-9]{1,6})?\s?(?:%|ms|[kKMGT]i?B|(?:minutes|hours|days|tokens"
    r"|rows|seconds)\b)|[$€£][0-9]{1,12}(?:\.[0-9]{1,2})?)"
)
_NAME = (
    r"(?P<name>`[A-Za-z_$@][\w.:/\-]{2,60}(?:\(\))?`|\b[a-z]+(?:[A-Z][a-z0-9]+){1,6}\b"
    r"|\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+){1,6}\b"
    r"|\b[a-z][a-z0-9]*(?:_[a-z0-9]+){1,7}\b|\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+){1,7}\b)"
)
# What most of a text is, and where no reference can begin or stand: runs of plain words and what parts them.
# Passed over in one match, rather than trying every rule at every letter: less than half the time.
_NO_BEGINNING = r"[^\w.@+\-\[\]/~#$€£`]"
_PLAIN = (
    r"(?:[A-Z]?[a-z]{0,40}+(?:[\s,;()=\"'{}<>|*!?&%^]|:(?![/\\])|\.(?=\s))"  # no scheme, no drive, no file
    rf"{_NO_BEGINNING}*+)++"
)
# No rule begins within a word either, so a word at which none did is passed over whole.
_REST = rf"\w++(?:{_PLAIN})?"
_WITHOUT_NAMES = re.compile(f"{_PLAIN}|{_EXACT}|{_REST}")
_WITH_NAMES = re.compile(f"{_PLAIN}|{_EXACT}|{_NAME}|{_REST}")
_KIND = {
    "url": "url",
    "path": "file",
    "route": "route",
    "file": "file",
    "error": "error",
    "uuid": "id",
    "hash": "id",
    "issue": "id",
    "code": "id",
    "snake": "id",
    "version": "number",
    "number": "number",
    "name": "name",
}
_LINE_NUMBER = re.compile(rf"(\.(?:{_EXTENSIONS}))[-:][0-9].*$")  # as grep prints: a.go-12-, a.go:12
_KNOWN_EXTENSIONS = frozenset(_EXTENSIONS.split("|"))
_KNOWN_NAMES = frozenset({"makefile", "dockerfile", "procfile"})
_FILE = re.compile(rf"\.(?:{_EXTENSIONS})$|^(?:Makefile|Dockerfile|Procfile)$", re.IGNORECASE)
_DATE_OR_RATIO = re.compile(r"[0-9.\-/]+$")
_NO_REFERENCE = re.compile(
    r"#(?:([0-9])\1\1|[0-9]{6})$|/dev/null$|/usr/bin/env$|/bin/(?:ba|z)?sh$"
)  # colours, and what is everywhere


def scanned(text: str) -> str:
    """The part of a text that is looked at; where it is cut, at the end of a line or a word."""
    if len(text) <= SCANNED_CHARS:
        return text
    head_chars = SCANNED_CHARS * 2 // 3
    head, tail = text[:head_chars], text[len(text) - (SCANNED_CHARS - head_chars) :]
    return f"{_until_last_break(head)}\n{tail[len(tail) - len(_until_last_break(tail[::-1])) :]}"


def _until_last_break(text: str) -> str:
    # Not in the middle of a secret: what stands before the break is what `redact` knows it by.
    at = max(text.rfind("\n", len(text) - 2_000), text.rfind(" ", len(text) - 500))
    return text[:at] if at > 0 else text


def entities_in(text: str, *, names: bool = True) -> list[Entity]:
    """The exact references of a text in order, each once, at most `MOST_PER_TEXT`. `names`: of code, too."""
    found: dict[str, Entity] = {}
    for match in (_WITH_NAMES if names else _WITHOUT_NAMES).finditer(scanned(text)):
        group = match.lastgroup
        if group is None or not (value := _value(group, match[0])) or value in found:
            continue
        found[value] = Entity("route" if value.endswith("/") else _KIND[group], value)
        if len(found) >= MOST_PER_TEXT:
            break
    return list(found.values())


def _value(group: str, matched: str) -> str:
    """What is kept of a match; empty when it is no reference after all."""
    # An expression is asked only where its answer is open: there are thousands of matches in a span.
    value = matched.strip("`").rstrip(".,;:!?'\"*-$")
    if group == "url" and matched.endswith(":"):
        return ""  # what follows is a mark of a redacted secret
    if group in ("path", "file"):
        if "-" in value or ":" in value:
            value = _LINE_NUMBER.sub(r"\1", value)
        if group == "path" and not _is_path(value):
            return ""
    if not 2 < len(value) <= LONGEST_CHARS or (value[0] in "/#" and _NO_REFERENCE.match(value)):
        return ""
    return value


def _is_path(value: str) -> bool:
    """A path, no ratio, date or either/or: it ends in a known extension, is rooted, or is deep."""
    if not value or (value[-1] in "0123456789.-/" and _DATE_OR_RATIO.match(value)):
        return False
    deep = value.count("/")
    if deep > 2 or _is_file(value.rstrip("/").rpartition("/")[2]):
        return True
    return deep > 1 and (value.startswith(("/", "~/", "./", "../")) or value[1:3] in (":\\", ":/"))


def _is_file(name: str) -> bool:
    if not name.isascii():
        return bool(_FILE.search(name))  # which knows more ways to write a letter than `lower`
    name = name.lower()
    return name.rpartition(".")[2] in _KNOWN_EXTENSIONS if "." in name else name in _KNOWN_NAMES
