"""The Celery app: JSON only, ids only, acknowledged early. The job row is the truth; a message is a wake-up."""

import os
import socket
from collections.abc import Mapping

from celery import Celery

from foldahead import keys
from foldahead_worker.settings import Settings
from foldahead_worker.watch import Wake

QUEUE = "foldahead"
TASK = "foldahead.compact"


def make_app(settings: Settings) -> Celery:
    """A Celery app over the broker of the settings."""
    app = Celery("foldahead", broker=settings.broker_url, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        result_accept_content=["json"],
        task_ignore_result=True,
        task_default_queue=QUEUE,
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        worker_pool="threads",
        worker_concurrency=settings.concurrency,
        worker_send_task_events=True,
        task_send_sent_event=True,
        worker_hijack_root_logger=False,
        worker_enable_remote_control=True,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"global_keyprefix": keys.BROKER_PREFIX, "visibility_timeout": 3600},
        enable_utc=True,
    )
    return app


def wake_with(app: Celery) -> Wake:
    """A function that sends a wake-up for each of some jobs. The message carries the id; the label is for Flower."""

    def wake(labels: Mapping[int, str]) -> None:
        if not labels:
            return
        with app.producer_or_acquire() as producer:
            for job_id, label in labels.items():
                app.send_task(
                    TASK, args=(job_id,), producer=producer, ignore_result=True, argsrepr=label, kwargsrepr=""
                )

    return wake


def owner_name() -> str:
    """Names this process in leases: host and pid."""
    return f"{socket.gethostname()}:{os.getpid()}"
