"""The Celery tasks: thin. What they do lives in `work`."""

from celery import Celery

from foldahead.errors import FoldaheadError
from foldahead_worker.app import TASK
from foldahead_worker.endings import Done
from foldahead_worker.metrics import Metrics
from foldahead_worker.work import Worker

NO_FAULT = frozenset({"cancelled", "budget_exhausted"})
"""Why a job may end without a summary, and nobody has to look."""


class JobFailed(FoldaheadError):
    """A job ended without a summary: what Flower shows as failed. Its row and events say the same."""


def register(app: Celery, worker: Worker, metrics: Metrics) -> None:
    """Give the app its task. What it returns or raises is for Flower: outcome, workspace, session; never content."""

    @app.task(name=TASK, throws=(JobFailed,))
    def compact(job_id: int) -> str:  # pyright: ignore[reportUnusedFunction]
        done = worker.run_one(job_id)
        metrics.ended(done.kind, done.outcome)
        if done.outcome == "failed" and done.reason not in NO_FAULT:
            raise JobFailed(in_words(done))
        return in_words(done)


def in_words(done: Done) -> str:
    """What became of a wake-up, in one line: a wake-up for one job may have done a more urgent one."""
    if not done.job_id:
        return f"nothing to do{f': {done.reason}' if done.reason else ''}"
    why = f" ({done.reason})" if done.reason else ""
    return f"{done.outcome}{why}: {done.workspace}/{done.session}, {done.kind}, job {done.job_id}"
