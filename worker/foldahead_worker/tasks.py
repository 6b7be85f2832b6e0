"""The Celery tasks: thin. What they do lives in `work`."""

from typing import Any

import msgspec
from celery import Celery

from foldahead_worker.app import TASK
from foldahead_worker.work import Worker


def register(app: Celery, worker: Worker) -> None:
    """Give the app its task. What it returns is for Flower: job, workspace, session, outcome; never content."""

    @app.task(name=TASK)
    def compact(job_id: int) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return msgspec.to_builtins(worker.run_one(job_id))
