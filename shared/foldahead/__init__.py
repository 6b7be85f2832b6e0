"""foldahead compacts long agent sessions before they fill up.

fold = Foldahead("redis://localhost:6379/0")
session = fold.session("ticket-4711", workspace="acme", dialect="anthropic")
reply = client.beta.messages.create(**session.request(model=MODEL, max_tokens=4096, messages=history))
session.publish(history, usage=reply.usage)
"""

from foldahead.client import Foldahead
from foldahead.core.policy import Policy
from foldahead.core.record import Record, decode_record, encode_record
from foldahead.oneshot import Compaction, compact
from foldahead.session import Session

__all__ = [
    "Compaction",
    "Foldahead",
    "Policy",
    "Record",
    "Session",
    "compact",
    "decode_record",
    "encode_record",
]
