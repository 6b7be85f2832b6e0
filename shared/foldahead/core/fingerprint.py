"""A quick mark of a message as the agent holds it: whether anything in it was changed since it was seen.

No identity: it covers what a digest leaves out, and is compared only within one process.
"""

from typing import Any

import msgspec

from foldahead.core.canonical import plain

_encoder = msgspec.msgpack.Encoder(enc_hook=plain)


def fingerprint(message: Any) -> int:
    """The mark of a message."""
    try:
        return hash(_encoder.encode(message))
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError, ValueError):
        return hash(_encoder.encode(plain(message)))
