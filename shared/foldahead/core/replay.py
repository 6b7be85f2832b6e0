"""Replay: records and the history give the view byte for byte, in any process, months later."""

from collections.abc import Sequence
from typing import Any

from foldahead.core.dialect import Dialect
from foldahead.core.ledger import ledger_of
from foldahead.core.record import Record
from foldahead.core.view import active_records, build_view


def replay(history: list[Any], records: Sequence[Record], dialect: Dialect) -> list[Any]:
    """The view of a history under its records; the history itself when none of them applies to it."""
    active = active_records(records, ledger_of(history, dialect))
    return build_view(history, active, dialect) if active.spans or active.edits else history
