"""How the stand-in signs what it gives out: a payload and its HMAC in one token, so it keeps no state.

The key is the same in every stand-in: what one process signed, another verifies, as with the real API.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import Final

from foldahead_worker.standin.fault import Json, as_object

_KEY: Final = b"foldahead stand-in, signing key 1"
_MARK: Final = "standin1."


def is_ours(token: object) -> bool:
    """Says whether a stand-in made this token, altered since or not."""
    return isinstance(token, str) and token.startswith(_MARK)


def sign(payload: Json) -> str:
    """Makes a token of a payload."""
    body = base64.urlsafe_b64encode(json.dumps(payload, sort_keys=True).encode()).decode()
    return f"{_MARK}{body}.{_mac(body)}"


def verify(token: object) -> Json | None:
    """Gives the payload of a token; None for one that no stand-in made or that was altered."""
    if not isinstance(token, str) or not token.startswith(_MARK):
        return None
    body, _, mac = token[len(_MARK) :].partition(".")
    if not hmac.compare_digest(mac.encode(), _mac(body).encode()):
        return None
    try:
        return as_object(json.loads(base64.urlsafe_b64decode(body)))
    except (binascii.Error, ValueError):
        return None


def digest(value: object) -> str:
    """Gives the SHA-256 of a JSON value in one fixed spelling."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _mac(body: str) -> str:
    return hmac.new(_KEY, body.encode(), hashlib.sha256).hexdigest()
