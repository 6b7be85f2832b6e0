"""Calls of the function library by the server side. A Redis that was restarted gets the library again."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import redis
from msgspec import Struct

from foldahead import wire
from foldahead_worker.library import load

RELOAD_ON = "Function not found"
Value = TypeVar("Value")
_log = logging.getLogger("foldahead.switchboard")


class FunctionCall(Struct, frozen=True):
    """One call: the function, the keys it touches, its arguments behind the wire version."""

    function: str
    touched: tuple[str, ...]
    arguments: Sequence[bytes | str | int]


class Caller:
    """For one thread or many; all methods raise redis.RedisError when Redis cannot be asked."""

    def __init__(self, client: "redis.Redis") -> None:
        """`client` with bytes replies. The library is loaded when a call finds it missing."""
        self.client: Any = client

    def call(self, function: str, touched: tuple[str, ...], arguments: Sequence[bytes | str | int]) -> Any:
        """What a function replied; None where a key of the session is of another type, and so not of our making."""
        return self.call_all([FunctionCall(function, touched, arguments)])[0]

    def call_all(self, calls: Sequence[FunctionCall]) -> list[Any]:
        """Like `call` for each of many, in one exchange. All were made when the error of one is raised."""
        replies = self._exchanged(calls)
        if missing := [at for at, reply in enumerate(replies) if _is_missing(reply)]:
            load(self.client)
            again = self._exchanged([calls[at] for at in missing])
            for at, reply in zip(missing, again, strict=True):
                replies[at] = reply
        return [_settled_reply(call, reply) for call, reply in zip(calls, replies, strict=True)]

    def _exchanged(self, calls: Sequence[FunctionCall]) -> list[Any]:
        pipeline = self.client.pipeline(transaction=False)
        for one in calls:
            pipeline.fcall(one.function, len(one.touched), *one.touched, wire.WIRE_VERSION, *one.arguments)
        return pipeline.execute(raise_on_error=False)


def is_wrong_type(error: object) -> bool:
    """Whether a key is of another type than ours."""
    return isinstance(error, redis.ResponseError) and "WRONGTYPE" in str(error)


def or_where_wrong_type(ask: Callable[[], Value], otherwise: Value) -> Value:
    """What a question of Redis is answered with; `otherwise` where the key is not of foldahead's making."""
    try:
        return ask()
    except redis.ResponseError as error:
        if not is_wrong_type(error):
            raise
        return otherwise


def _is_missing(reply: Any) -> bool:
    return isinstance(reply, redis.ResponseError) and RELOAD_ON in str(reply)


def _settled_reply(call: FunctionCall, reply: Any) -> Any:
    if not isinstance(reply, Exception):
        return reply
    if not is_wrong_type(reply):
        raise reply
    _log.warning("%s: a key of this session is not of foldahead's making: %s", call.function, call.touched[0])
    return None
