"""The fixtures that every test may ask for."""

from tests.servers import postgres_server, postgres_url, redis_server, redis_url

__all__ = ["postgres_server", "postgres_url", "redis_server", "redis_url"]
