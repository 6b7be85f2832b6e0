"""The summarisers that the settings allow, for a worker; opened once in a process, closed with it."""

from collections.abc import Callable, Mapping

from foldahead.core.models import Model
from foldahead.core.request import SummaryKind, SummaryRequest
from foldahead_worker.gate import Gate
from foldahead_worker.metered import MeteredSummarizer
from foldahead_worker.metrics import Metrics
from foldahead_worker.settings import Settings, accounts_of
from foldahead_worker.summarizers.accounts import Account, Accounts
from foldahead_worker.summarizers.extract import ExtractSummarizer
from foldahead_worker.summarizers.protocol import Summarizer
from foldahead_worker.summarizers.slowed import SlowedSummarizer
from foldahead_worker.work import SummarizerOf


class Supply:
    """Summarisers by kind. Without any account there is only `extract`: other work is left to other workers."""

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
            self._add_models(accounts)

    def close(self) -> None:
        """Close the connections to providers."""
        for close in self._closing:
            close()

    def _add_models(self, accounts: Accounts) -> None:
        # The SDK takes over a second and 80 MiB to import: only where it is used.
        from foldahead_worker.summarizers.clients import Clients
        from foldahead_worker.summarizers.native import NativeSummarizer
        from foldahead_worker.summarizers.text import TextSummarizer

        clients = Clients(accounts.providers)
        self._closing.append(clients.close)

        def by(
            make: Callable[[Account, Clients, Gate, Mapping[str, Model]], Summarizer],
        ) -> SummarizerOf:
            def summarizer(request: SummaryRequest) -> Summarizer | None:
                account = accounts.find(request.workspace, request.model.partition(":")[0])
                if account is None:
                    return None
                return self._dressed(make(account, clients, self.gate, self._settings.models))

            return summarizer

        self.by_kind["text"] = by(TextSummarizer)
        self.by_kind["native"] = by(NativeSummarizer)

    def _dressed(self, inside: Summarizer) -> Summarizer:
        delay_s = self._settings.summary_delay_s
        return MeteredSummarizer(SlowedSummarizer(inside, delay_s) if delay_s else inside, self._metrics)
