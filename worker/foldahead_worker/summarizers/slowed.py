"""A summariser that takes its time: what `play --summary-seconds` and the demo put around another one."""

import time

from foldahead.core.request import SummaryKind
from foldahead_worker.summarizers.protocol import Answer, Check, Forecast, Span, Summarizer

_STEP_S = 0.05


class SlowedSummarizer:
    """Answers like the one inside, `seconds` later."""

    def __init__(self, inside: Summarizer, seconds: float) -> None:
        self._inside = inside
        self._seconds = seconds
        self.kind: SummaryKind = inside.kind
        self.account = inside.account

    def forecast(self, span: Span) -> Forecast:
        return self._inside.forecast(span)

    def summarise(self, span: Span, check: Check) -> Answer:
        until = time.monotonic() + self._seconds
        while (left := until - time.monotonic()) > 0:
            check()
            time.sleep(min(_STEP_S, left))
        return self._inside.summarise(span, check)
