"""What summaries cost, for people and for whoever adds it to the rest of a bill."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from foldahead.core.models import PICO_PER_USD
from foldahead.core.request import SummaryKind
from foldahead_worker.store import Store
from foldahead_worker.store.spend import spend_rows


class Spent(Struct, frozen=True, kw_only=True):
    """Spend of one session on one model and kind. `picodollars` is exact; open reservations count as spent."""

    workspace: str
    session: str
    model: str
    kind: SummaryKind
    calls: int
    """Leases under which a provider was asked."""
    input_tokens: int
    output_tokens: int
    picodollars: int
    cost_usd: float
    pricing_mode: Literal["compaction"] = "compaction"
    """Tells this spend from the agent's own (first seed, section 12)."""


class Report(Struct, frozen=True, kw_only=True):
    """Rows, the dearest first, and their sum."""

    rows: tuple[Spent, ...]
    picodollars: int
    cost_usd: float
    pricing_mode: Literal["compaction"] = "compaction"


def report_spend(
    store: Store, *, workspace: str | None = None, session: str | None = None, since_day: str = ""
) -> Report:
    """Spend by workspace, session, model and kind; `since_day` is a UTC day as in 2026-11-29."""
    rows = [
        Spent(
            workspace=row.workspace,
            session=row.session,
            model=row.model,
            kind=row.kind,
            calls=row.leases,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            picodollars=row.picodollars,
            cost_usd=row.picodollars / PICO_PER_USD,
        )
        for row in spend_rows(store, workspace, since_day, session)
    ]
    return _totalled(rows)


def _totalled(rows: Sequence[Spent]) -> Report:
    total = sum(row.picodollars for row in rows)
    return Report(rows=tuple(rows), picodollars=total, cost_usd=total / PICO_PER_USD)
