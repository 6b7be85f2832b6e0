"""`foldahead health`: whether the work is done, in one line and an exit status."""

import sys

import typer


def health() -> None:
    """Say whether the service does its work. Exit status 1: it does not; what is wrong is on standard output.

    Unhealthy is not only a process that is gone: it is a job that has been due for too long (FOLDAHEAD_HEALTH_DUE_S,
    60 seconds), a session that no watcher looks at, reports that nobody keeps. For a probe of each process use
    `/health` on its metrics port.

    Examples:

        foldahead health
        foldahead health || systemctl restart foldahead-work
    """
    # Imported here: the database takes most of a second, which no other command is to wait for.
    from foldahead_worker.cli.reaching import reach_redis
    from foldahead_worker.readings import faults_of, take_reading
    from foldahead_worker.settings import read_settings
    from foldahead_worker.store import open_store
    from foldahead_worker.switchboard import Switchboard

    settings = read_settings()
    client = reach_redis(settings)
    store = open_store(settings.database_url)
    try:
        reading = take_reading(store, Switchboard(client))
    finally:
        store.close()
        client.close()
    faults = faults_of(reading, settings.health_due_s)
    for fault in faults:
        sys.stdout.write(f"unhealthy: {fault}\n")
    if faults:
        raise typer.Exit(1)
    sys.stdout.write(
        f"healthy: {reading.queued} jobs queued, {reading.leased} under way, "
        f"the oldest due for {reading.oldest_due_s:.0f} s\n"
    )
