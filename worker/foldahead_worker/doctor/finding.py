"""What the doctor says about one thing."""

from typing import Literal

from msgspec import Struct

Grade = Literal["ok", "warn", "bad"]


class Finding(Struct, frozen=True, kw_only=True):
    """`warn`: works, but know it. `bad`: something is wrong, `advice` says what to do."""

    about: str
    grade: Grade
    said: str
    advice: str = ""


def ok(about: str, said: str) -> Finding:
    """All is well with it."""
    return Finding(about=about, grade="ok", said=said)


def warn(about: str, said: str, advice: str) -> Finding:
    """It works, but not as well as it could, or not for long."""
    return Finding(about=about, grade="warn", said=said, advice=advice)


def bad(about: str, said: str, advice: str) -> Finding:
    """It is wrong."""
    return Finding(about=about, grade="bad", said=said, advice=advice)
