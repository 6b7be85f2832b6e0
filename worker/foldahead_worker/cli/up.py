"""`foldahead up`: everything on one machine, looked after."""

import contextlib
import fcntl
import os
import shlex
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from foldahead_worker.cli.faults import BadInput, Unavailable
from foldahead_worker.cli.stopping import stop_in_order
from foldahead_worker.embedded.redis_server import EmbeddedRedis, PortTaken
from foldahead_worker.settings import (
    Settings,
    default_database_url,
    names_a_database,
    names_a_redis,
    read_settings,
    state_directory,
)

DEFAULT_PORT = 6379


def up(
    port: Annotated[
        int, typer.Option(min=1, max=65535, metavar="PORT", help="Where the embedded Redis listens, on loopback.")
    ] = DEFAULT_PORT,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="DIR",
            show_default=False,
            help="Where data and logs are kept; `~/.local/state/foldahead` if none is given.",
        ),
    ] = None,
    flower_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="PORT",
            show_default=False,
            help="Where Flower listens, on loopback; 5555 if none is given, 0: no Flower.",
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Flower shows everything and changes nothing.")
    ] = False,
) -> None:
    """Run everything on this machine: Redis, a watcher, a worker, Flower; restart what ends; stop all at Ctrl-C.

    An embedded Redis keeps its data in the state folder, unless `FOLDAHEAD_REDIS_URL` names one; the database is a
    SQLite file there, unless `FOLDAHEAD_DATABASE_URL` names one. With `ANTHROPIC_API_KEY` a model writes the
    summaries; without it, rules. One line says when all is ready.

    Examples:

        foldahead up
        foldahead up --port 6399 --state ./state
        FOLDAHEAD_REDIS_URL=redis://cache:6379/0 foldahead up
    """
    # Imported here: what starts servers is not needed for the help.
    from foldahead_worker.cli.supervising import supervise

    stop_in_order()
    directory = (state_directory() if state is None else state).absolute()
    settings = read_settings()
    if not names_a_database():
        settings = msgspec.structs.replace(settings, database_url=f"sqlite:///{directory}/foldahead.db")
    try:
        with _only_one(directory), _redis(settings, directory, port) as (reached, server):
            own, flower = _with_flower(reached, directory, flower_port, read_only=read_only)
            if exports := _exports(own):
                _say(f"shell     export {exports}  # for other commands")
            supervise(own, server, directory, _say, flower)
    except (KeyboardInterrupt, SystemExit):
        _say("stopped")  # as it was asked to: whoever supervises us is not to take it for a failure


def _exports(settings: Settings) -> str:
    """What another shell has to be told, so that its commands use this stack.

    The Redis in any case: `foldahead play` starts a stack of its own where none is named.
    """
    made: dict[str, str] = {}
    if not names_a_redis():
        made["FOLDAHEAD_REDIS_URL"] = settings.redis_url
    if not names_a_database() and settings.database_url != default_database_url():
        made["FOLDAHEAD_DATABASE_URL"] = settings.database_url
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in made.items())


def _with_flower(settings: Settings, directory: Path, port: int | None, *, read_only: bool) -> tuple[Settings, str]:
    """The settings with Flower's port and password, and what to say of it; empty where there is to be none.

    Raises Unavailable for a port that was asked for and is taken.
    """
    from foldahead_worker.cli.flower import where_to_go
    from foldahead_worker.flower import own_auth, port_is_free

    wanted = settings.flower_port if port is None else port
    if wanted == 0:
        return settings, ""
    if not port_is_free(settings.flower_address, wanted):
        if port is not None:
            raise Unavailable(f"port {wanted} is taken: choose another with --flower-port, or 0 for no Flower")
        _say(f"flower    none: port {wanted} is taken; choose another with --flower-port")
        return settings, ""
    auth, is_new = (settings.flower_auth, False) if settings.flower_auth else own_auth(directory)
    own = msgspec.structs.replace(
        settings, flower_auth=auth, flower_port=wanted, flower_read_only=read_only or settings.flower_read_only
    )
    return own, where_to_go(own, directory, None if settings.flower_auth else is_new)


@contextlib.contextmanager
def _only_one(directory: Path) -> Generator[None]:
    """The state folder, ours alone. Raises BadInput, Unavailable."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "up.lock").open("a+")
    except OSError as error:
        raise BadInput(f"--state {directory}: cannot be used: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            raise Unavailable(
                f"foldahead up runs already on {directory} (process {lock.read().strip() or 'unknown'}): stop it, or "
                "choose another --state and --port"
            ) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@contextlib.contextmanager
def _redis(settings: Settings, directory: Path, port: int) -> Generator[tuple[Settings, EmbeddedRedis | None]]:
    """The settings with a Redis that runs, and the server where it is ours."""
    from foldahead_worker.cli.reaching import reach_redis

    if names_a_redis():
        reach_redis(settings).close()
        yield settings, None
        return
    server = EmbeddedRedis(directory / "redis", port=port, persistent=True)
    try:
        server.start()
    except PortTaken as error:
        raise Unavailable(f"port {port} is taken: choose another with --port, or set FOLDAHEAD_REDIS_URL") from error
    try:
        yield msgspec.structs.replace(settings, redis_url=server.url, broker_url=server.url), server
    finally:
        server.stop()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
