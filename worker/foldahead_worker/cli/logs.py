"""Logs of the server processes: one line for each event, on standard error."""

import logging
import sys

import structlog


def configure_logs() -> None:
    """Time, level, logger and text, coloured on a terminal; the traceback of a fault is told on one line."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _Line(sys.stderr.isatty())],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    for noisy in ("celery.worker.strategy", "celery.app.trace", "kombu", "httpx2", "sqlalchemy"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


class _Line:
    """Renders an event as one line."""

    COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}

    def __init__(self, coloured: bool) -> None:
        self._coloured = coloured

    def __call__(self, logger: object, name: str, event: structlog.typing.EventDict) -> str:  # noqa: ARG002
        trace = " | ".join(str(event.get("exception", "")).split("\n"))
        said = " ".join(str(event.get("event", "")).split())
        level = str(event.get("level", ""))
        line = f"{event.get('timestamp', '')} {level:<8} {event.get('logger', '')}: {said}{f' | {trace}' if trace else ''}"
        colour = self.COLOURS.get(level) if self._coloured else None
        return f"{colour}{line}\x1b[0m" if colour else line
