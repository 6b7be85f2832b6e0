"""Secrets for the compose file: made once, kept, and handed to a process through files."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the script in it, to make secrets in."""
    (tmp_path / "deploy").mkdir()
    for name in ("make-secrets.sh", "redis-agents.acl", "redis-servers.acl"):
        shutil.copy(ROOT / "deploy" / name, tmp_path / "deploy")
    return tmp_path


def make_secrets(checkout: Path) -> dict[str, str]:
    subprocess.run(["bash", "deploy/make-secrets.sh"], cwd=checkout, check=True, capture_output=True)
    return {path.name: path.read_text() for path in (checkout / "secrets").iterdir()}


def run_entrypoint(command: str, **variables: str) -> str:
    ran = subprocess.run(
        ["sh", ROOT / "deploy" / "entrypoint.sh", "sh", "-c", command],
        env={"PATH": "/usr/bin:/bin", **variables},
        check=True,
        capture_output=True,
        text=True,
    )
    return ran.stdout.strip()


def test_the_folder_of_secrets_is_closed_to_others(checkout: Path) -> None:
    make_secrets(checkout)
    assert (checkout / "secrets").stat().st_mode & 0o777 == 0o700


def test_the_urls_carry_the_passwords(checkout: Path) -> None:
    secrets = make_secrets(checkout)
    assert secrets["redis_url"] == f"redis://foldahead-server:{secrets['redis_password']}@redis:6379/0"
    assert f"//foldahead-agent:{secrets['redis_agent_password']}@" in secrets["redis_agent_url"]
    assert f":{secrets['postgres_password']}@postgres:5432/" in secrets["database_url"]


def test_redis_lets_in_servers_and_agents_by_the_hashes_of_their_passwords(checkout: Path) -> None:
    secrets = make_secrets(checkout)
    users = [line.split() for line in secrets["redis_users"].splitlines()]
    hashes = {words[1]: words[3] for words in users[1:]}
    assert users[0] == ["user", "default", "off"]
    for user, password in (("foldahead-server", "redis_password"), ("foldahead-agent", "redis_agent_password")):
        assert hashes[user] == f"#{hashlib.sha256(secrets[password].encode()).hexdigest()}"
    assert secrets["redis_password"] not in secrets["redis_users"]


def test_secrets_that_are_there_are_kept(checkout: Path) -> None:
    assert make_secrets(checkout) == make_secrets(checkout)


def test_the_entry_point_reads_a_secret_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a secret with spaces $HOME 'and quotes'\n")
    found = run_entrypoint('printf %s "$ANTHROPIC_API_KEY"', ANTHROPIC_API_KEY_FILE=str(tmp_path / "key"))
    assert found == "a secret with spaces $HOME 'and quotes'"


def test_an_empty_secret_sets_nothing(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("")
    found = run_entrypoint('echo "${ANTHROPIC_API_KEY-unset}"', ANTHROPIC_API_KEY_FILE=str(tmp_path / "key"))
    assert found == "unset"
