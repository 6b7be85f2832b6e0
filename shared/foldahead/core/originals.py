"""Messages as the agent sends them, for a summary that the provider writes itself (`native`).

Their bodies are JSON, where those of other sessions are the canonical form. Both are proved by the same heads: what is
read in an original gives its canonical form.
"""

from typing import Any

import msgspec

from foldahead.core.canonical import json_of
from foldahead.core.dialect import Dialect
from foldahead.core.ledger import Ledger, bodies_of

_OPENING = b"{"


def encode_original(message: Any, dialect: Dialect) -> bytes:
    """A message as JSON, without cache breakpoints: no part of what was said, and few fit into one request."""
    return json_of(dialect.limit_breakpoints([message], 0)[0])


def is_original(body: bytes) -> bool:
    """Whether a body is a message as it was sent, and not its canonical form (msgpack of an array)."""
    return body.startswith(_OPENING)


def decode_original(body: bytes) -> Any:
    """The message of such a body. Raises msgspec.DecodeError, RecursionError."""
    return msgspec.json.decode(body)


def originals_of(messages: list[Any], ledger: Ledger, start: int, end: int) -> list[bytes]:
    """The messages start..end of the history that a ledger was made of, encoded.

    Ends before the first that would not be read as what the ledger read: it was edited in place, or JSON cannot hold
    it. Only looks at what the ledger has settled: it may be called on another thread.
    """
    since = ledger.turn_start_at(start)
    encoded = [encode_original(message, ledger.dialect) for message in messages[since:end]]
    sent = [*messages[:since], *map(decode_original, encoded)]
    return encoded[start - since :][: len(bodies_of(sent, ledger, start, end))]
