"""One session's fault must not stop the service for the others: what cannot be done for all is done one by one."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import redis

from foldahead_worker.store import StoreError

Item = TypeVar("Item")
_OF_THE_SERVER = ("OOM", "READONLY", "MISCONF", "LOADING", "MASTERDOWN", "BUSY", "NOREPLICAS", "FOLDWIRE", "Function")
"""Beginnings of Redis errors that are no session's fault."""


def done_apart(
    items: Sequence[Item], do: Callable[[Sequence[Item]], object], set_aside: Callable[[Item, Exception], None]
) -> None:
    """Do it for all at once; where that fails, for each by itself, and set those aside for which it fails again.

    Raises what is no item's fault: the database or Redis is away.
    """
    try:
        do(items)
    except Exception as error:  # whatever it is, it is one session's
        if is_everyones(error):
            raise
        if len(items) == 1:
            set_aside(items[0], error)
            return
        for item in items:
            done_apart([item], do, set_aside)


def is_everyones(error: Exception) -> bool:
    """Whether an error would meet any other session too."""
    if isinstance(error, redis.ResponseError):
        return type(error) is not redis.ResponseError or str(error).startswith(_OF_THE_SERVER)
    return isinstance(error, StoreError | redis.RedisError)
