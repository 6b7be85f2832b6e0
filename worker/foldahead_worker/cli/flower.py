"""`foldahead flower`: Celery's own web page, with a password."""

import http.client
import sys
import threading
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from foldahead_worker.settings import Settings, read_settings, state_directory
from foldahead_worker.stack import end_with_stdin, say_ready, terminate_self

AUTH_FILE = "flower-auth"
READY_POLL_S = 0.1
READY_TIMEOUT_S = 60.0


def flower(
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Show everything, change nothing. The same as FLOWER_READ_ONLY=true.")
    ] = False,
    exit_with_stdin: Annotated[bool, typer.Option("--exit-with-stdin", hidden=True)] = False,
) -> None:
    """Run Flower: what the workers do, live, in a browser.

    On 127.0.0.1:5555, unless FLOWER_ADDRESS and FLOWER_PORT say otherwise. The user is that of FLOWER_BASIC_AUTH
    (`user:password`, or a file named by FLOWER_BASIC_AUTH_FILE); without it a password is made, shown once, and kept in
    the state folder for its owner alone.
    """
    # Imported here: Celery takes most of a second, which no other command is to wait for.
    from foldahead_worker.flower import own_auth, run_flower

    settings = read_settings()
    if read_only:
        settings = msgspec.structs.replace(settings, flower_read_only=True)
    directory = state_directory()
    auth, is_new = (settings.flower_auth, None) if settings.flower_auth else own_auth(directory)
    settings = msgspec.structs.replace(settings, flower_auth=auth)
    sys.stderr.write(f"Flower: {where_to_go(settings, directory, is_new)}\n")
    if exit_with_stdin:
        end_with_stdin(terminate_self)
    threading.Thread(target=_say_when_ready, args=(settings,), name="ready", daemon=True).start()
    run_flower(settings, auth)


def where_to_go(settings: Settings, directory: Path, is_new: bool | None) -> str:
    """Address, user and, the first time, the password. `is_new` None: the user gave it and knows it."""
    user, _, password = settings.flower_auth.partition(":")
    where = f"http://{settings.flower_address}:{settings.flower_port} user {user}"
    if is_new is None:
        return where
    if is_new:
        return f"{where} password {password} (shown this once; kept in {directory / AUTH_FILE})"
    return f"{where}, password in {directory / AUTH_FILE}"


def _say_when_ready(settings: Settings) -> None:
    until_s = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < until_s:
        if _answers(settings):
            say_ready("flower")
            return
        time.sleep(READY_POLL_S)


def _answers(settings: Settings) -> bool:
    host = "127.0.0.1" if settings.flower_address in ("", "0.0.0.0") else settings.flower_address
    connection = http.client.HTTPConnection(host, settings.flower_port, timeout=1.0)
    try:
        connection.request("GET", "/healthcheck")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
