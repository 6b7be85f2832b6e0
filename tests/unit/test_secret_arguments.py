"""What is typed into a field for a password is told by the field alone."""

import json
from typing import Any

import pytest

from foldahead.core.extract import extract
from foldahead.core.messages import Call, Message, Result, Text
from foldahead.core.render import render_span
from foldahead.core.text.secret_arguments import without_typed_secrets

TYPED = "correct-horse"
SECRETS: list[dict[str, Any]] = [
    {"selector": "#password", "text": TYPED},
    {"selector": "input[name='password']", "value": TYPED},
    {"element": "Password field", "ref": "e12", "text": TYPED},
    {"label": "Confirm password", "text": TYPED},
    {"key": "DB_PASSWORD", "value": TYPED},
    {"name": "API key", "value": TYPED},
    {"fields": [{"name": "user", "value": "bob"}, {"name": "passwd", "value": TYPED}]},
    {"element": "密码", "text": TYPED},
]
ORDINARY: list[dict[str, Any]] = [
    {"selector": "#user", "text": TYPED},
    {"name": "password_length", "value": TYPED},
    {"path": "src/password", "text": TYPED},
    {"key": "token_count", "value": TYPED},
    {"element": "Forgot your password? Write to us", "text": TYPED},
    {"selector": "#password", "text": "${PASSWORD}"},
    {"selector": "#password", "text": ""},
]


def span(arguments: Any) -> list[Message]:
    return [
        Message("user", (Text("Log in."),)),
        Message("assistant", (Call("1", "browser_type", arguments),)),
        Message("user", (Result("1", (Text("ok"),)),)),
    ]


@pytest.mark.parametrize("arguments", SECRETS)
def test_it_reaches_neither_a_summariser_nor_a_summary(arguments: dict[str, Any]) -> None:
    for given in (arguments, json.dumps(arguments)):
        assert TYPED not in render_span(span(given), 4_000, "7f3a9c")
        assert TYPED not in extract(span(given), 800)


@pytest.mark.parametrize("arguments", ORDINARY)
def test_other_arguments_are_left_as_they_are(arguments: dict[str, Any]) -> None:
    assert without_typed_secrets(arguments) is arguments


def test_arguments_of_any_depth_are_taken() -> None:
    nested: Any = {"name": "password", "value": TYPED}
    for _ in range(5_000):
        nested = [nested]
    assert without_typed_secrets(nested) is nested
