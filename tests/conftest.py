"""The fixtures that every test may ask for."""

from tests import hypothesis_profiles
from tests.servers import postgres_server, postgres_url, redis_server, redis_url

__all__ = ["hypothesis_profiles", "postgres_server", "postgres_url", "redis_server", "redis_url"]
