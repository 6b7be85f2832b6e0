"""What a caller can do something about, one class for each.

FoldaheadError
├── InvalidHistory     a message is no message: mend the list and call again
├── InvalidPolicy      a policy value is out of range: mend the value
├── UnknownDialect     no such dialect: choose one that exists
├── UnusableRecord     a record is of a newer version or damaged: upgrade, or take it out of the list
├── Unreachable        Redis could not be asked in time: try again later (only calls that wait raise it)
└── SessionClosed      the session or its Foldahead was closed: open a new one
"""


class FoldaheadError(Exception):
    """Anything that foldahead raises on purpose."""


class InvalidHistory(FoldaheadError, ValueError):
    """A message in the history is no message. The text names its index and what was expected."""


class InvalidPolicy(FoldaheadError, ValueError):
    """A policy value is not usable. The text names the field, the value and what was expected."""


class UnknownDialect(FoldaheadError, ValueError):
    """No dialect of that name. The text lists those that there are."""


class UnusableRecord(FoldaheadError, ValueError):
    """A record cannot be read or does not belong to this history. The text names it and says why."""


class Unreachable(FoldaheadError, ConnectionError):
    """Redis did not answer in the time given. Only calls that are documented to wait raise this."""


class SessionClosed(FoldaheadError, RuntimeError):
    """The session, or the Foldahead that it came from, was closed."""
