"""The database: the truth for jobs, summaries, records and spend, on SQLite or PostgreSQL.

`open_store(url)` gives a `Store`; the functions that use it live by subject: `jobs` (want), `leases`,
`commits`, `summaries`, `waiters`, `sessions`, `records`, `events`, `spend`, `policies`, `status`, `retention`;
`upgrading` brings older tables up to date. Each is one short transaction. What comes out is frozen structs. Time goes
in as `now_ms`; nothing here reads a clock.
"""

from foldahead_worker.store.engine import Store, open_store
from foldahead_worker.store.errors import (
    DatabaseUnreachable,
    NewerSchema,
    OlderSchema,
    StoreBroken,
    StoreBusy,
    StoreError,
)

__all__ = [
    "DatabaseUnreachable",
    "NewerSchema",
    "OlderSchema",
    "Store",
    "StoreBroken",
    "StoreBusy",
    "StoreError",
    "open_store",
]
