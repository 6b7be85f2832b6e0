"""Messages as the agent sends them, for a summary that the provider writes itself (`native`).

Their bodies are JSON, where those of other sessions are the canonical form. Both are proved by the same heads: what is
read in an original gives its canonical form.
"""

from typing import Any

import msgspec

from foldahead.core import canonical
from foldahead.core.dialect import Dialect
from foldahead.core.ledger import Ledger
from foldahead.core.pairing import Pairing

_OPENING = b"{"


def encode_original(message: Any, dialect: Dialect) -> bytes:
    """A message as JSON, without cache breakpoints: no part of what was said, and few fit into one request."""
    bare = dialect.limit_breakpoints([message], 0)[0]
    try:
        return msgspec.json.encode(bare, enc_hook=canonical.plain)
    except (UnicodeEncodeError, RecursionError, OverflowError):
        return msgspec.json.encode(canonical.plain(bare))


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
    heads, dialect = ledger.settled_heads, ledger.dialect
    pairing = Pairing(merges_runs=dialect.profile.merges_runs)
    found: list[bytes] = []
    for at in range(ledger.turn_start_at(start), min(end, len(heads) - 1)):
        body = encode_original(messages[at], dialect)
        read = pairing.step(dialect.read(decode_original(body), at)).message
        if canonical.next_head(heads[at], canonical.digest(canonical.encode(read))) != heads[at + 1]:
            break
        if at >= start:
            found.append(body)
    return found
