"""`extract`: the summariser that nobody pays for. Rules only, the same ones as on the agent's side."""

import threading

from foldahead.core.extract import extract
from foldahead.core.request import SummaryKind
from foldahead_worker.summarizers.protocol import Answer, Check, Forecast, Span

CHECK_EVERY_S = 0.5
EXTRACT_VERSION = "extract-1"


class ExtractSummarizer:
    """Summaries by rules, within the request's length target."""

    kind: SummaryKind = "extract"
    prompt_version = EXTRACT_VERSION
    account = ""

    def __init__(self) -> None:
        # One at a time: this computes, and side by side in one interpreter all would end when the last does.
        self._turn = threading.Lock()

    def forecast(self, span: Span) -> Forecast:  # noqa: ARG002 - the Protocol's
        return Forecast()

    def summarise(self, span: Span, check: Check) -> Answer:
        while not self._turn.acquire(timeout=CHECK_EVERY_S):
            check()
        try:
            check()
            return Answer(text=extract(span.messages, span.request.length_target_tokens, span.parent_text))
        finally:
            self._turn.release()
