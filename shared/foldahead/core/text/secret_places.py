"""Where in a text a secret of a known format may begin, found by what each format cannot be without.

Trying all formats at every character costs 200 ns a character; looking for a few rare words costs 10. What is found is
a superset: `secret_formats` is tried at these places and nowhere else. Linear.
"""

import re
from collections.abc import Iterator

from foldahead.core.text.anchors import folded, places_of
from foldahead.core.text.secret_formats import SHORTEST_TOKEN_CHARS

_FOREIGN = re.compile(
    "密码|密碼|口令|密钥|パスワード|비밀번호|пароль|contraseña|hasło|mật khẩu|lösenord|jelszó|şifre|κωδικός"
    "|كلمة (?:المرور|السر)|رمز عبور|סיסמ[אה]|รหัสผ่าน|पासवर्ड",
    re.IGNORECASE,
)
_ANCHORS = (
    # in lower case, and how far before them a format may begin
    (b"pass", (0, 3, 7)),  # password, passwd, --pass; sshpass; requirepass
    (b"pwd", (0,)),
    (b"_pw", (-1,)),
    (b"psk", (0,)),
    (b"parola", (0,)),
    (b"heslo", (0,)),
    (b"secret", (0,)),
    (b"token", (0,)),
    (b"auth", (0, 1, 6)),  # Authorization; _auth; Proxy-Authorization, masterauth
    (b"signature", (0, 6, 12, 13, 14)),  # X-Amz-, SharedAccess-, with up to two signs in it
    (b"bearer", (0,)),
    (b"cookie:", (0, 4)),  # Set-Cookie
    (b"-----begin ", (0,)),
    (b"hooks.slack.com/", (0,)),
    (b"webhook.office.com/", (0,)),
    (b"discord", (0,)),
    (b"mysql", (0,)),
    (b"mariadb", (0,)),
    (b"redis-cli", (0,)),
    (b"login", (0,)),
    (b"seed phrase", (0,)),
    (b"mnemonic", (0,)),
    (b"private-lines:", (0,)),
    (b"identified", (0,)),
    (b"sig=", (0,)),
    (b"contrasena", (0,)),
    (b"senha", (0,)),
    (b"mot de passe", (0,)),
    (b"kennwort", (0,)),
    (b"wachtwoord", (0,)),
    # tokens that are no long run of letters, digits, dashes and dots from their beginning on
    (b"whsec_", (0,)),
    (b"1//0", (0,)),
    (b":aa", (8, 9, 10)),  # a Telegram bot's
)
_OPTION = b" -"
_COMMANDS = (
    (b"--cookie", (0,)),
    (b"mongo", (0,)),
    (b"ldap", (0,)),
    (b"zip", (0, 2)),  # unzip
    (b"7z", (0,)),
    (b"ssh-keygen", (0,)),
)
"""Programs that take a secret as an option: looked for where any option is."""
_USER_OPTION, _TAKES_A_USER = b"-u", (b"curl", b"wget", b"http")
"""Addresses are everywhere: they matter where an option `-u` or `--user` is."""
_KEY = re.compile(
    rb"(?:api.?|(?:access|auth|account|app|private|encryption|signing|master|pre.?shared).?|_iam.?)key\Z", re.DOTALL
)
_BEFORE_KEY_CHARS = 12
_PORT = re.compile(rb":(?:[0-9]{4,5}|\*)(?=:)")
_HOST_CHARS = 128
_CLASSES = bytes(b"x"[0] if chr(code).isalnum() or chr(code) in "_-.=?" else b" "[0] for code in range(256))
"""`?` too: it stands for whatever Latin-1 does not have."""
_LONG_RUN = re.compile(b"x" * SHORTEST_TOKEN_CHARS + b"x*+")
_WORD = re.compile(r"(?<![\w\-])\w")


def places(text: str) -> list[int]:
    """The places in order."""
    if not text:
        return []
    found = [] if text.isascii() else [match.start() for match in _FOREIGN.finditer(text)]
    data = folded(text)
    for anchor, before in (*_ANCHORS, *_COMMANDS) if _OPTION in data else _ANCHORS:
        if anchor in data:
            found += (at - chars for at in places_of(data, anchor) for chars in before if at >= chars)
    if b"sudo" in data or b"chpasswd" in data:
        found += places_of(data, b"echo")
    if b"@" in data:
        found += places_of(data, b"://")
    if _USER_OPTION in data:
        for command in _TAKES_A_USER:
            found += places_of(data, command)
    found += _keys(data)
    found += _lines_with_a_port(data)
    found += _long_runs(text, data)
    return sorted(set(found))


def _keys(data: bytes) -> Iterator[int]:
    """Where the names of keys begin: `api_key`, `access key` and their kin."""
    for at in places_of(data, b"key"):
        if found := _KEY.search(data, max(0, at - _BEFORE_KEY_CHARS), at + len(b"key")):
            yield found.start()
        if data[at - 1 : at] == b"_":
            yield at


def _lines_with_a_port(data: bytes) -> Iterator[int]:
    """Lines like `host:5432:database:user:password`, as PostgreSQL's file of passwords has them."""
    for found in _PORT.finditer(data):
        line = data.rfind(b"\n", max(0, found.start() - _HOST_CHARS - 1), found.start()) + 1
        if line or found.start() <= _HOST_CHARS:
            yield line


def _long_runs(text: str, data: bytes) -> Iterator[int]:
    """The words from which on it is as far as a token is long, at least."""
    for run in _LONG_RUN.finditer(data.translate(_CLASSES)):
        for word in _WORD.finditer(text, run.start(), run.end() - SHORTEST_TOKEN_CHARS + 1):
            yield word.start()
