"""Secrets in a call's arguments that nothing but another argument tells: what is typed into a field for passwords."""

import re
from collections.abc import Mapping
from typing import Any, cast

from foldahead.core.text.secret_values import is_placeholder

_NAMING = frozenset(
    {"selector", "element", "label", "field", "field_name", "placeholder", "locator", "xpath", "css", "aria_label"}
    | {"name", "key", "id", "input_name", "variable", "secret_name", "env_name"}
)
"""Arguments that say what a value is for. Not a file's name: that may be anything's."""
_TYPED = ("text", "value", "secret", "secret_value")
_FOR_A_SECRET = re.compile(
    r"(?:password|passwd|passphrase|passcode|pwd|secret|token|(?:api|access|private)[\W_]?key|kennwort|passwort"
    r"|contrase[ñn]a"
    r"|mot de passe|senha|wachtwoord|пароль|密码|密碼|パスワード|비밀번호)"
    r"(?:[\W_]*(?:field|input|box|textbox|confirm\w*|repeat|again|[12]))*[\W_]*\Z",
    re.IGNORECASE,
)
_LOOKED_AT_CHARS = 200
_MOST_DEPTH = 6
_MARK = "[redacted:typed]"


def without_typed_secrets(arguments: Any, depth: int = 0) -> Any:
    """The arguments with a mark in place of each such secret; themselves where there is none."""
    if depth > _MOST_DEPTH:
        return arguments
    if isinstance(arguments, Mapping):
        given = cast("Mapping[str, Any]", arguments)
        changed = {key: without_typed_secrets(value, depth + 1) for key, value in given.items()}
        if any(map(_names_a_secret, given.items())):
            changed |= {key: _MARK for key in _TYPED if _may_be_one(given.get(key))}
        return changed if any(changed[key] is not given[key] for key in given) else given
    if isinstance(arguments, list):
        items = cast("list[Any]", arguments)
        found = [without_typed_secrets(item, depth + 1) for item in items]
        return found if any(new is not old for new, old in zip(found, items, strict=True)) else items
    return arguments


def _names_a_secret(argument: tuple[Any, Any]) -> bool:
    key, value = argument
    named = isinstance(key, str) and key.lower() in _NAMING and isinstance(value, str)
    return named and len(value) <= _LOOKED_AT_CHARS and _FOR_A_SECRET.search(value) is not None


def _may_be_one(value: Any) -> bool:
    return isinstance(value, str) and not is_placeholder(value)
