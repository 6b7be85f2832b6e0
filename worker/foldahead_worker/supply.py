"""The summarisers that the settings allow, for a worker; opened once in a process, closed with it."""

from collections.abc import Callable

from foldahead.core.request import SummaryKind, SummaryRequest
from foldahead_worker.gate import Gate
from foldahead_worker.metered import MeteredSummarizer
from foldahead_worker.metrics import Metrics
from foldahead_worker.settings import Settings, accounts_of
from foldahead_worker.summarizers.accounts import Accounts
from foldahead_worker.summarizers.extract import ExtractSummarizer
from foldahead_worker.summarizers.protocol import Summarizer
from foldahead_worker.summarizers.slowed import SlowedSummarizer
from foldahead_worker.work import SummarizerOf


class Supply:
    """Summarisers by kind. Without any account there is no `text`: that work is left to other workers."""

    def __init__(self, settings: Settings, gate: Gate, metrics: Metrics) -> None:
        self.gate = gate
        self.by_kind: dict[SummaryKind, SummarizerOf] = {}
        self._settings = settings
        self._metrics = metrics
        self._closing: list[Callable[[], None]] = []
        extract = self._dressed(ExtractSummarizer())
        self.by_kind["extract"] = lambda _: extract
        accounts = accounts_of(settings)
        if settings.summarizer != "extract" and accounts.any_at_all():
            self._add_text(accounts)

    def close(self) -> None:
        """Close the connections to providers."""
        for close in self._closing:
            close()

    def _add_text(self, accounts: Accounts) -> None:
        # The SDK takes over a second and 80 MiB to import: only where it is used.
        from foldahead_worker.summarizers.clients import Clients
        from foldahead_worker.summarizers.text import TextSummarizer

        clients = Clients(accounts.providers)
        self._closing.append(clients.close)

        def text(request: SummaryRequest) -> Summarizer | None:
            account = accounts.find(request.workspace, request.model.partition(":")[0])
            if account is None:
                return None
            return self._dressed(TextSummarizer(account, clients, self.gate, self._settings.models))

        self.by_kind["text"] = text

    def _dressed(self, inside: Summarizer) -> Summarizer:
        delay_s = self._settings.summary_delay_s
        return MeteredSummarizer(SlowedSummarizer(inside, delay_s) if delay_s else inside, self._metrics)
