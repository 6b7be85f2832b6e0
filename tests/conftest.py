"""The fixtures that every test may ask for, and the options of a run."""

from tests import hypothesis_profiles
from tests.databases import database_url, databases, pytest_addoption, pytest_collection_modifyitems
from tests.servers import postgres_server, postgres_url, redis_server, redis_url

__all__ = [
    "database_url",
    "databases",
    "hypothesis_profiles",
    "postgres_server",
    "postgres_url",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "redis_server",
    "redis_url",
]
