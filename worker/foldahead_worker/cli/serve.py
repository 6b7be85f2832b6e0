"""`foldahead watch` and `foldahead work`: one process each, for a Procfile, compose or systemd."""

import logging
import threading
from typing import Annotated

import typer

from foldahead_worker.cli.stopping import call_at_signals
from foldahead_worker.lasting import made_to_last
from foldahead_worker.settings import make_state_directory, read_settings
from foldahead_worker.stack import end_with_stdin, say_ready, terminate_self

_log = logging.getLogger("foldahead.cli")
ExitWithStdin = Annotated[bool, typer.Option("--exit-with-stdin", help="End when standard input closes.", hidden=True)]


def watch(exit_with_stdin: ExitWithStdin = False) -> None:
    """Run one watcher: it looks at sessions that will soon need a summary, and orders the work.

    Any number may run side by side. It needs Redis and the database; it ends in order at SIGTERM or Ctrl-C. It prints
    one line when it is ready, and logs to standard error.

        FOLDAHEAD_REDIS_URL=redis://localhost:6379/0 \\
        FOLDAHEAD_DATABASE_URL=postgresql+psycopg://foldahead@localhost/foldahead \\
        foldahead watch
    """
    # Imported here: Celery and SQLAlchemy take most of a second, which no other command is to wait for.
    with made_to_last():
        from foldahead_worker.cli.logs import configure_logs
        from foldahead_worker.server import run_watcher

    settings = read_settings()
    make_state_directory()
    configure_logs(settings.log_format)
    stop = threading.Event()
    call_at_signals(stop.set)
    if exit_with_stdin:
        end_with_stdin(stop.set)
    run_watcher(settings, stop, lambda: _ready("watch"))
    _log.info("watch: stopped")


def work(exit_with_stdin: ExitWithStdin = False) -> None:
    """Run one worker: a Celery worker that writes the summaries.

    Any number may run side by side. At the first SIGTERM it takes no new work, hands back what it cannot finish, and
    ends. It prints one line when it is ready, and logs to standard error. With `ANTHROPIC_API_KEY` a model writes the
    summaries; without it, rules.

        FOLDAHEAD_REDIS_URL=redis://localhost:6379/0 FOLDAHEAD_CONCURRENCY=32 foldahead work
    """
    with made_to_last():
        from celery import signals

        from foldahead_worker.cli.logs import configure_logs
        from foldahead_worker.server import run_worker

    settings = read_settings()
    make_state_directory()
    configure_logs(settings.log_format)

    def leave_logs_alone(**_: object) -> None:
        """Celery sets up logs of its own where nobody says that it is done."""

    def on_ready(**_: object) -> None:
        _ready("work")

    signals.setup_logging.connect(leave_logs_alone, weak=False)
    signals.worker_ready.connect(on_ready, weak=False)
    if exit_with_stdin:
        end_with_stdin(terminate_self)
    run_worker(settings)
    _log.info("work: stopped")


def _ready(kind: str) -> None:
    _log.info("%s: ready", kind)
    say_ready(kind)
