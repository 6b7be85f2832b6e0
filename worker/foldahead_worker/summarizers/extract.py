"""`extract`: the summariser that nobody pays for. Rules only, the same ones as on the agent's side."""

from foldahead.core.extract import extract
from foldahead.core.request import SummaryKind
from foldahead_worker.summarizers.protocol import Answer, Check, Forecast, Span

EXTRACT_VERSION = "extract-3"


class ExtractSummarizer:
    """Summaries by rules, within the request's length target."""

    kind: SummaryKind = "extract"
    account = ""

    def forecast(self, span: Span) -> Forecast:  # noqa: ARG002 - the Protocol's
        return Forecast()

    def summarise(self, span: Span, check: Check) -> Answer:
        check()
        return Answer(text=extract(span.messages, span.request.length_target_tokens, span.parent_text))
