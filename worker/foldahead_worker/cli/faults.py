"""What ends a command early, one class for each exit status, and the one line that is said about it.

CommandFault
├── BadInput      what was given cannot be used: mend it. Exit status 2
└── Unavailable   something of ours, or a service, is not there: start it. Exit status 1
"""

import redis

from foldahead.errors import FoldaheadError, InvalidHistory, InvalidPolicy, UnknownDialect, UnusableRecord
from foldahead_worker.embedded.redis_server import EmbeddedRedisError
from foldahead_worker.importers import UnreadableFile
from foldahead_worker.settings import InvalidSettings

ILL_FED = (UnreadableFile, InvalidHistory, InvalidPolicy, UnknownDialect, UnusableRecord, InvalidSettings)
"""What the rooms below raise for input that cannot be used; their texts are written to be shown."""
AWAY = (FoldaheadError, EmbeddedRedisError, redis.RedisError, OSError)
"""Everything else that is nobody's mistake here: a service that is away, a port that is taken, a full disk."""


class CommandFault(Exception):
    """A command cannot go on. The text is one line for people."""

    status = 1


class BadInput(CommandFault):
    """What was given cannot be used. The text names it and says what was expected."""

    status = 2


class Unavailable(CommandFault):
    """A service, or something of ours, is not there. The text says what to do."""


def one_line(text: str) -> str:
    """A text as one printable line, whatever a file name or a server put into it."""
    joined = " ".join(text.split())
    return "".join(shown if shown.isprintable() else ascii(shown)[1:-1] for shown in joined)


def fault_of(error: Exception) -> CommandFault | None:
    """What to say about an error of the rooms below; None for a fault of ours, which is not to be hidden."""
    if isinstance(error, CommandFault):
        return error
    if isinstance(error, ILL_FED):
        return BadInput(str(error))
    if isinstance(error, redis.RedisError):
        return Unavailable(f"Redis: {error}")
    if isinstance(error, AWAY):
        return Unavailable(str(error) or type(error).__name__)
    return None
