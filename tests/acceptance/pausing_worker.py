"""A worker that stops for good at the point that its argument names, and says so: for tests that kill it there."""

import os
import sys
import threading
from typing import Any

from foldahead.core.request import SummaryKind, SummaryRequest
from foldahead_worker.app import QUEUE, make_app
from foldahead_worker.gate import Gate
from foldahead_worker.library import load
from foldahead_worker.metrics import Metrics
from foldahead_worker.server import connect, make_worker
from foldahead_worker.settings import accounts_of, read_settings
from foldahead_worker.store import open_store
from foldahead_worker.summarizers.protocol import Answer, Check, Forecast, Span, Summarizer
from foldahead_worker.supply import Supply
from foldahead_worker.switchboard import Switchboard
from foldahead_worker.tasks import register

POINT = sys.argv[1] if len(sys.argv) > 1 else ""


def pause_at(point: str) -> None:
    if point == POINT:
        os.write(1, f"paused {point}\n".encode())  # Celery has put its log in the place of sys.stdout
        threading.Event().wait()


class PausingSummarizer:
    """Pauses around the call."""

    def __init__(self, inside: Summarizer) -> None:
        self._inside = inside
        self.kind: SummaryKind = inside.kind
        self.account = inside.account

    def forecast(self, span: Span) -> Forecast:
        return self._inside.forecast(span)

    def summarise(self, span: Span, check: Check) -> Answer:
        pause_at("before-call")
        answer = self._inside.summarise(span, check)
        pause_at("after-answer")
        return answer


class PausingSwitchboard(Switchboard):
    """Pauses between the commit and telling the sessions."""

    def ready(self, member: str, ready: Any) -> bool:
        pause_at("after-commit")
        return super().ready(member, ready)


def main() -> None:
    settings = read_settings()
    store, client = open_store(settings.database_url), connect(settings.redis_url)
    load(client)
    metrics = Metrics()
    supply = Supply(settings, Gate(client, accounts_of(settings)), metrics)
    of_text = supply.by_kind["text"]

    def pausing(request: SummaryRequest) -> Summarizer | None:
        pause_at("after-lease")
        inside = of_text(request)
        return PausingSummarizer(inside) if inside else None

    supply.by_kind["text"] = pausing
    worker = make_worker(settings, store, PausingSwitchboard(client), supply, metrics)
    run_one = worker.run_one

    class Pausing:
        stopping = worker.stopping

        def run_one(self, job_id: int) -> Any:
            pause_at("after-pop")
            return run_one(job_id)

    app = make_app(settings)
    register(app, Pausing(), metrics)  # type: ignore[arg-type]
    os.write(1, b"ready\n")
    app.Worker(queues=[QUEUE], hostname="pausing@here", quiet=True).start()


if __name__ == "__main__":
    main()
