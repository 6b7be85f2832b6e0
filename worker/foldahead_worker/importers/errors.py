"""Why a file could not be read.

UnreadableFile (a ValueError; its text is one line, ready to be shown)
|- FileRefused      missing, a directory, no permission, too large
|- NotJson          empty, binary, cut off, no JSON
|- UnknownFormat    JSON, but no conversation that we know
|- BadMessage       a conversation with something in it that is no message
`- SessionChoice    several sessions and no name, or a name that is not there
"""

from __future__ import annotations


class UnreadableFile(ValueError):
    """The file holds no conversation that can be read; the text says what is wrong and where."""

    def __init__(self, reason: str) -> None:
        super().__init__(" ".join(reason.split()))

    def in_file(self, file: str) -> UnreadableFile:
        """The same fault with the file's name before it."""
        return type(self)(f"{file}: {self}")


class FileRefused(UnreadableFile):
    """The file cannot be opened, or is larger than what is read into memory at once."""


class NotJson(UnreadableFile):
    """What is in the file is neither JSON nor JSON Lines."""


class UnknownFormat(UnreadableFile):
    """JSON of a shape that is no conversation, or of a format that is not supported."""


class BadMessage(UnreadableFile):
    """A value in a list of messages is no message."""


class SessionChoice(UnreadableFile):
    """The file holds several sessions and it is not clear which is meant."""
