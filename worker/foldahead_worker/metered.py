"""A summariser whose calls are measured: seconds, tokens and dollars, by model and kind."""

import time

from foldahead.core.request import SummaryKind
from foldahead_worker.metrics import Metrics
from foldahead_worker.summarizers.protocol import (
    Answer,
    Check,
    Cost,
    Forecast,
    Interrupted,
    Span,
    Summarizer,
    SummarizerError,
)


class MeteredSummarizer:
    """Answers like the one inside, and tells `metrics` what it took."""

    def __init__(self, inside: Summarizer, metrics: Metrics) -> None:
        self._inside = inside
        self._metrics = metrics
        self.kind: SummaryKind = inside.kind
        self.account = inside.account

    def forecast(self, span: Span) -> Forecast:
        return self._inside.forecast(span)

    def summarise(self, span: Span, check: Check) -> Answer:
        model = span.request.model or self.kind
        begun_s = time.monotonic()
        try:
            answer = self._inside.summarise(span, check)
        except (SummarizerError, Interrupted) as error:
            self._bill(model, error.cost)
            raise
        finally:
            self._metrics.called(model, self.kind, time.monotonic() - begun_s)
        self._bill(model, answer.cost)
        return answer

    def _bill(self, model: str, cost: Cost) -> None:
        self._metrics.billed(
            model,
            self.kind,
            input_tokens=cost.input_tokens,
            output_tokens=cost.output_tokens,
            picodollars=cost.picodollars,
        )
