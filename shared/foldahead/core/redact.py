"""Secrets of known formats out of a text, before a summariser or a summary sees it (design section 6).

One compiled expression finds what may be one (`text.secret_formats`, tried at `text.secret_places`), rules say whether
the value is one (`text.secret_values`), and a mark `[redacted:<kind>]` takes its place. Precise rather than zealous: a
general detector costs over a second a summary and eats code. Linear, deterministic, idempotent; never raises.
"""

import re

from foldahead.core.text.secret_formats import SECRET
from foldahead.core.text.secret_places import places
from foldahead.core.text.secret_values import (
    has_digit_and_letter,
    is_password,
    is_placeholder,
    is_secret_value,
    is_token,
    key_names_no_secret,
)

REDACTION_VERSION = 3
"""Part of every cache key: count up when a text is redacted differently than before."""

_Found = re.Match[str]
_Judgement = tuple[int, int, str]  # start and end of the secret, its kind; no kind: none, go on looking at `end`

_BASE64_RUN = re.compile(r"(?:(?:\s|\\[rn])*+[A-Za-z0-9+/=]{16,}+)*+")
_LOOSE_END = re.compile(r"[,;&](?=[\w.\-]{1,40}\s{0,2}[=:])|\\[nrt\"']|[,;)\]}>.:!?]{1,8}$|</")
_LOOKED_AT_CHARS = 256
_REST = re.compile(r"[^\s\"'`]{0,16384}+")
_NAME = re.compile(r"[\w.\-]*")
_PASSWORD_KEYS = (
    "pass",
    "pwd",
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "비밀번호",
    "пароль",
    "contrase",
    "senha",
    "mot de",
    "kennwort",
    "wachtwoord",
    "hasło",
    "_pw",
    "pw",
    "psk",
    "parola",
    "mật",
    "lösenord",
    "heslo",
    "jelszó",
    "şifre",
    "κωδικός",
    "كلمة",
    "رمز",
    "סיסמ",
    "รหัสผ่าน",
    "पासवर्ड",
)
_PROSE = ("", "is", "was", "to", "ist", "'s", ",", "|", "是", "为", "為", "は", "는", "은")
"""How ends what parts name and value in a sentence, in a list or a table: there only what no word looks like is a
secret."""
_TABLE = "|"
_LIST = ","
_ENVIRONMENTS_KEY = "KEY"
"""Of `FERNET_KEY=`. Many call keys what is no secret: only what reads as drawn by chance is one."""
_DRAWN = re.compile(r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])[\w%+/=\-]{16,}|[0-9a-f]{32,}")
_NAME_WITH_NUMBER = re.compile(r"[A-Za-z]+(?:[_\-.][A-Za-z]+)*[_\-]?\d{0,4}")
_PORTS = re.compile(r"[\d.:]+")
_AUTHORISATIONS = ("header", "bearer")
_KINDS = {
    "cookie": "cookie",
    "cookieflag": "cookie",
    "sas": "signature",
    "urltoken": "token",
    "words": "seed_phrase",
    "putty": "private_key",
}


def redact(text: str) -> str:
    """The text with every secret of a known format replaced by `[redacted:<kind>]`."""
    out: list[str] = []
    done = at = 0
    for place in places(text):
        if place < at or not (found := SECRET.match(text, place)):
            continue
        start, end, kind = _judge(found)
        if kind:
            out += text[done:start], f"[redacted:{kind}]"
            done = end
        at = max(end, place + 1)
    return "".join(out) + text[done:] if out else text


def _judge(found: _Found) -> _Judgement:
    match found.lastgroup:
        case "token":
            return *found.span(), "token" if is_token(found[0]) else ""
        case "webhook":
            return *found.span(), "webhook"
        case "block":
            return _private_key(found)
        case "named":
            return _named(found)
        case group:
            return _placed(found, group or "")


def _private_key(found: _Found) -> _Judgement:
    """A whole block; of one without its end what looks like the key, since the header alone may be code."""
    if found[0].count("-----") >= 4:
        return *found.span(), "private_key"
    body = found.string.index("-----", found.start() + 5) + 5
    run = _BASE64_RUN.match(found.string, body, found.end())
    end = run.end() if run else body
    return found.start(), end, "private_key" if end > body else ""


def _placed(found: _Found, group: str) -> _Judgement:
    """A value that is a secret by where it stands: behind `Authorization:`, `mysql -p`, `user:` in a URL."""
    start, end = found.span(group)
    value = found[group]
    if group == "login":
        user, _, value = value.partition(":")
        start += len(user) + 1
    elif value[:1] in "\"'" and value[-1:] == value[:1] and len(value) > 2:
        start, end, value = start + 1, end - 1, value[1:-1]
    if is_placeholder(value) or _is_no_secret_there(found, group, value):
        return start, end, ""
    if group in _AUTHORISATIONS:
        plain = not has_digit_and_letter(value) and len(value) < (8 if found["scheme"] else 24)
        return start, end, "" if plain or "(" in value else "authorization"
    return start, end, _KINDS.get(group, "password")


def _is_no_secret_there(found: _Found, group: str, value: str) -> bool:
    """What stands in the place of a secret as well: a user's number, ports, a name, our own mark before a host."""
    match group:
        case "login" | "login_p":
            return value.isdigit()
        case "mongo":
            return bool(_PORTS.fullmatch(value))
        case "sas":
            return not _DRAWN.match(value)
        case "authpair" | "sudo" | "keygen":
            return not is_password(value, quoted=True, certain=False)
        case "urltoken" | "cookieflag":
            return not has_digit_and_letter(value)
        case "url":
            return found["user"].startswith("[redacted")
        case _:
            return False


def _named(found: _Found) -> _Judgement:
    """A value behind a name: `password = ...`, `"api_key": "..."`, `--token ...`."""
    nothing = found.start(), found.end("rest"), ""
    quoted = found["quoted"] is not None
    start, end = found.span("quoted" if quoted else "named")
    if not quoted and (loose := _LOOSE_END.search(found.string, start, end)):
        end = loose.start()
    separator = found["sep"].strip()
    in_tags = separator.endswith(">") and (separator == ">" or separator.endswith("<string>"))
    if key_names_no_secret(found["rest"]) or (in_tags and not found.string.startswith("</", end)):
        return nothing
    value = found.string[start:end]
    kind = "password" if found["key"].lower().startswith(_PASSWORD_KEYS) else "secret"
    judge = is_password if kind == "password" else is_secret_value
    if separator == _TABLE and not _line_before(found).lstrip().startswith(_TABLE):
        return nothing
    if separator == _LIST and _NAME_WITH_NUMBER.fullmatch(value):
        return nothing
    if found["key"] == _ENVIRONMENTS_KEY and not _DRAWN.match(value):
        return nothing
    if separator.rpartition(" ")[2] in _PROSE and not _is_flag(found):
        is_secret = has_digit_and_letter(value) and judge(value, quoted=False, certain=False)
    else:
        is_secret = judge(value, quoted=quoted, certain=not quoted and (in_tags or _stands_alone(found, end)))
    return (start, _whole_end(found.string, start, end), kind) if is_secret else nothing


def _whole_end(text: str, start: int, end: int) -> int:
    """Where a value ends that is longer than the part of it that was looked at."""
    rest = _REST.match(text, end) if end - start >= _LOOKED_AT_CHARS else None
    return rest.end() if rest else end


def _is_flag(found: _Found) -> bool:
    line = found.string.rfind(" ", max(0, found.start() - 40), found.start()) + 1
    return found.string.startswith("-", line) and found["sep"].strip() == ""


def _line_before(found: _Found) -> str:
    line = found.string.rfind("\n", max(0, found.start() - 80), found.start()) + 1
    return found.string[line : found.start()]


def _stands_alone(found: _Found, end: int) -> bool:
    """Whether the line holds nothing but name and value, or the name is an environment's or a flag's."""
    text = found.string
    if _is_flag(found):
        return True
    line = max(text.rfind("\n", max(0, found.start() - 80), found.start()), found.start() - 80) + 1
    before = text[max(0, line) : found.start()].strip().removeprefix("export ").strip(" \t*>|-")
    name = before.rpartition(" ")[2] + found["key"] + found["rest"]
    if found["sep"] == "=" and (name.isupper() or name.startswith("--") or before[-1:] in ("?", "&")):
        return True
    tail = text[end : end + 2]
    return (not before or _NAME.fullmatch(before) is not None) and tail[:1] in ("", "\n", "\r")
