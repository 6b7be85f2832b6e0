"""Flower, Celery's own web page, over our broker: never open, on loopback unless a setting says otherwise.

Its own metrics and health pages stay open even so (facts of Flower 2.2.0); they name workers and tasks, no session.
"""

import secrets
import socket
from pathlib import Path

from foldahead_worker.app import make_app
from foldahead_worker.settings import Settings

COLUMNS = "args,state,result,exception,received,runtime,worker,uuid"
"""What the list of tasks shows: for whom and what, then how it ended, at a glance."""
USER = "foldahead"
PASSWORD_BYTES = 18


def own_auth(directory: Path) -> tuple[str, bool]:
    """`user:password` of this machine's Flower, kept in a file that only its owner reads; whether it is new.

    Raises OSError.
    """
    path = directory / "flower-auth"
    if path.exists():
        return path.read_text("utf8").strip(), False
    directory.mkdir(parents=True, exist_ok=True)
    auth = f"{USER}:{secrets.token_urlsafe(PASSWORD_BYTES)}"
    path.touch(mode=0o600)
    path.write_text(auth + "\n", "utf8")
    return auth, True


def port_is_free(host: str, port: int) -> bool:
    """Whether we may listen there; said before Flower starts, which would only log it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def flower_arguments(settings: Settings, auth: str) -> list[str]:
    """Flower's options. Given to it in this process: no process list shows the password."""
    return [
        "flower",
        f"--address={settings.flower_address}",
        f"--port={settings.flower_port}",
        f"--basic_auth={auth}",
        f"--read_only={settings.flower_read_only}",
        f"--tasks_columns={COLUMNS}",
    ]


def run_flower(settings: Settings, auth: str) -> None:
    """Run Flower until SIGTERM or Ctrl-C."""
    make_app(settings).start(flower_arguments(settings, auth))  # pyright: ignore[reportUnknownMemberType]
