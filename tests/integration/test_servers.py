"""The test servers themselves: every test finds them empty."""

import psycopg
import pytest
import redis
from sqlalchemy import make_url


@pytest.mark.parametrize("_time", [1, 2])
def test_every_test_finds_redis_empty(redis_url: str, _time: int) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("left behind", 1)


@pytest.mark.parametrize("_time", [1, 2])
def test_every_test_finds_postgres_empty(postgres_url: str, _time: int) -> None:
    plain = make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        assert tables == (0,)
        connection.execute("CREATE TABLE left_behind (n int)")
