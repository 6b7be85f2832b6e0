"""The entry point: runs a command, and turns whatever ends it into one line and an exit status.

0: fine. 1: a service, or something of ours, is not there. 2: bad input. 130: Ctrl-C; 143: SIGTERM.
"""

import os
import sys

from foldahead_worker.lasting import made_to_last

MISSING = "foldahead: the command needs packages that are not installed; run: pip install 'foldahead[worker]'"
EXTRA = frozenset({"typer", "rich", "redis", "msgspec", "celery", "sqlalchemy"})


def main() -> int:
    """Run the command line; the exit status. The script calls it without arguments."""
    try:
        with made_to_last():
            from foldahead_worker.cli.run import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        sys.stderr.write(MISSING + "\n")
        return 1
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # Who read us (head, less) has had enough. Python would complain once more while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status
