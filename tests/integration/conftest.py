"""The fixtures of tests that use a database."""

from tests.stores import store, store_url

__all__ = ["store", "store_url"]
