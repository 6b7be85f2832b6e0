"""Logs of the server processes: one line for each decision that matters, on standard error.

`decided`, `leased`, `committed`, `delivered`, `swapped`: each names workspace, session, job and the first twelve
characters of the cache key, so that one session can be followed through all processes. Never content; what an error
says is redacted. Lines for people on a terminal, JSON where a program reads.
"""

import logging
import sys

import structlog

from foldahead.core.redact import redact

_NOISY = ("celery.worker.strategy", "celery.app.trace", "kombu", "httpx2", "sqlalchemy", "alembic")
_MOST_CHARS = 2_000
"""Of one value: an error of a library may quote a request."""
_SHOWN_APART = frozenset({"timestamp", "level", "logger", "event", "exception", "stack_info"})
_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}


def configure_logs(log_format: str = "auto") -> None:
    """Set up the logs of this process, once, at its entry. `auto`: text on a terminal, else JSON."""
    on_terminal = sys.stderr.isatty()
    as_json = log_format == "json" or (log_format == "auto" and not on_terminal)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(as_json=as_json, coloured=on_terminal))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)


def formatter(*, as_json: bool, coloured: bool = False) -> logging.Formatter:
    """Makes one line of a log record and of what was given with it as `extra`."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _safe,
    ]
    render: structlog.typing.Processor = structlog.processors.JSONRenderer() if as_json else _Line(coloured)
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
    )


def _safe(logger: object, name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:  # noqa: ARG001
    """Takes secrets of known formats out of every text, and the rest of a text that is too long."""
    return {key: redact(value)[:_MOST_CHARS] if isinstance(value, str) else value for key, value in event.items()}


class _Line:
    """Renders an event as one line for people: time, level, logger, what happened, then names and counts."""

    def __init__(self, coloured: bool) -> None:
        self._coloured = coloured

    def __call__(self, logger: object, name: str, event: structlog.typing.EventDict) -> str:  # noqa: ARG002
        trace = " | ".join(str(event.get("exception", "")).split("\n"))
        said = " ".join(str(event.get("event", "")).split())
        level = str(event.get("level", ""))
        told = ((key, " ".join(str(value).split())) for key, value in event.items() if key not in _SHOWN_APART)
        more = "".join(f" {key}={value}" for key, value in told if value)
        line = f"{event.get('timestamp', '')} {level:<8} {event.get('logger', '')}: {said}{more}"
        line = f"{line} | {trace}" if trace else line
        colour = _COLOURS.get(level) if self._coloured else None
        return f"{colour}{line}\x1b[0m" if colour else line
