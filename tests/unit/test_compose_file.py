"""The compose file is valid, and keeps what the service needs: no eviction, no root, no secret in it."""

from pathlib import Path
from typing import Any

import pytest
from compose_spec import PyCompose, PyOptions

ROOT = Path(__file__).parents[2]
SERVICES = ["redis", "postgres", "watch", "work", "flower"]
ONCE = ["migrate"]


def compose_file() -> PyCompose:
    return PyOptions(apply_merge=True).from_yaml((ROOT / "docker-compose.yml").read_text("utf-8"))


def service(name: str) -> dict[str, Any]:
    return compose_file().to_dict()["services"][name]


def test_the_compose_file_follows_the_specification() -> None:
    compose_file().validate()


def test_a_misspelt_key_is_caught() -> None:
    text = (ROOT / "docker-compose.yml").read_text("utf-8").replace("stop_grace_period", "stop_grace_periode")
    with pytest.raises(ValueError, match="stop_grace_periode"):
        PyOptions(apply_merge=True).from_yaml(text)


def test_the_services_are_those_of_the_design() -> None:
    assert sorted(compose_file().service_names()) == sorted(SERVICES + ONCE)


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_health_check(name: str) -> None:
    assert service(name)["healthcheck"]["test"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_starts_again(name: str) -> None:
    assert service(name)["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", SERVICES + ONCE)
def test_every_service_has_a_limit_of_memory(name: str) -> None:
    assert service(name)["mem_limit"]


@pytest.mark.parametrize("name", ["watch", "work", "flower"])
def test_nothing_of_ours_starts_before_the_tables_are_up_to_date(name: str) -> None:
    assert service(name)["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}


@pytest.mark.parametrize("name", ["redis", "postgres"])
def test_a_server_runs_as_its_own_user(name: str) -> None:
    assert service(name)["user"] not in {"", "root", "0"}


def test_our_image_runs_as_a_user_of_its_own() -> None:
    assert "\nUSER 10001\n" in (ROOT / "Dockerfile").read_text("utf-8")


@pytest.mark.parametrize("name", SERVICES)
def test_a_published_port_is_on_loopback(name: str) -> None:
    ports = service(name).get("ports", [])
    assert [port for port in ports if not str(port).startswith("127.0.0.1:")] == []


def test_redis_never_evicts() -> None:
    assert "--maxmemory-policy noeviction" in service("redis")["command"]


def test_redis_keeps_an_append_only_file() -> None:
    assert "--appendonly yes" in service("redis")["command"]


def test_every_secret_comes_from_a_file() -> None:
    secrets = compose_file().to_dict()["secrets"]
    assert {name: f"./secrets/{name}" for name in secrets} == {name: secret["file"] for name, secret in secrets.items()}


@pytest.mark.parametrize("name", SERVICES + ONCE)
def test_a_variable_that_holds_a_secret_names_its_file(name: str) -> None:
    variables: dict[str, str] = service(name).get("environment", {})
    holds_secret = ("PASSWORD", "URL", "KEY", "AUTH", "TOKEN")
    secret = {key: value for key, value in variables.items() if any(word in key for word in holds_secret)}
    assert {key: f"/run/secrets/{Path(value).name}" for key, value in secret.items()} == secret
