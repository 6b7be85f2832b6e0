"""`extract`: the summariser that nobody pays for. Rules only, the same ones as on the agent's side."""

from foldahead.core.extract import extract
from foldahead.core.request import SummaryKind
from foldahead_worker.summarizers.protocol import Answer, Check, Span

EXTRACT_VERSION = "extract-1"


class ExtractSummarizer:
    """Summaries by rules, within the request's length target."""

    kind: SummaryKind = "extract"
    prompt_version = EXTRACT_VERSION

    def upper_picodollars(self, span: Span) -> int:
        return 0

    def picodollars(self, answer: Answer) -> int:
        return 0

    def summarise(self, span: Span, check: Check) -> Answer:
        check()
        return Answer(text=extract(span.messages, span.request.length_target_tokens, span.parent_text))
