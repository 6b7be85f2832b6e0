"""Which account pays for a workspace: keys of the environment, keys in files, providers that are set up."""

from pathlib import Path

import pytest

from foldahead_worker.settings import InvalidSettings, accounts_of, read_settings
from foldahead_worker.summarizers.accounts import Account, Accounts, Providers, Secret


def accounts(keys_dir: Path | None = None, key: str = "shared-key") -> Accounts:
    return Accounts(Providers(anthropic_key=Secret(key), keys_dir=keys_dir))


def write_key(directory: Path, workspace: str, key: str, provider: str = "anthropic") -> None:
    (directory / provider).mkdir(exist_ok=True)
    (directory / provider / workspace).write_text(key + "\n")


def found(of: Accounts, workspace: str = "acme", provider: str = "anthropic") -> Account:
    account = of.find(workspace, provider)
    assert account is not None
    return account


def test_the_key_of_the_environment_is_for_every_workspace() -> None:
    assert found(accounts(), "acme").key.reveal() == found(accounts(), "other").key.reveal() == "shared-key"


def test_a_workspace_with_a_file_has_a_key_of_its_own(tmp_path: Path) -> None:
    write_key(tmp_path, "acme", "own-key")
    assert found(accounts(tmp_path)).key.reveal() == "own-key"
    assert found(accounts(tmp_path), "other").key.reveal() == "shared-key"


def test_a_key_that_changed_counts_at_once_and_is_another_account(tmp_path: Path) -> None:
    of = accounts(tmp_path)
    write_key(tmp_path, "acme", "own-key")
    before = found(of)
    write_key(tmp_path, "acme", "new-key")
    assert found(of).key.reveal() == "new-key"
    assert found(of).name != before.name


def test_a_workspace_name_is_percent_encoded_in_its_file_name(tmp_path: Path) -> None:
    write_key(tmp_path, "acme%2Fnorth", "own-key")
    assert found(accounts(tmp_path), "acme/north").key.reveal() == "own-key"


@pytest.mark.parametrize("workspace", ["..", ".", "../anthropic/acme", ""])
def test_no_workspace_name_reaches_another_file(tmp_path: Path, workspace: str) -> None:
    write_key(tmp_path, "acme", "own-key")
    assert found(accounts(tmp_path), workspace).key.reveal() == "shared-key"


def test_a_key_file_that_cannot_be_read_is_not_replaced_by_the_shared_key(tmp_path: Path) -> None:
    (tmp_path / "anthropic" / "acme").mkdir(parents=True)
    assert accounts(tmp_path).find("acme", "anthropic") is None


def test_an_empty_key_file_takes_a_workspace_off(tmp_path: Path) -> None:
    write_key(tmp_path, "acme", "")
    assert not accounts(tmp_path).has("acme", "anthropic")


def test_without_any_key_there_is_no_account() -> None:
    assert not accounts(key="").any_at_all()


def test_a_provider_that_nobody_knows_has_no_account() -> None:
    assert not accounts().has("acme", "openai")


@pytest.mark.parametrize(
    ("provider", "environ"),
    [
        ("bedrock", {"AWS_REGION": "eu-central-1"}),
        ("vertex", {"CLOUD_ML_REGION": "global", "ANTHROPIC_VERTEX_PROJECT_ID": "p"}),
        ("foundry", {"ANTHROPIC_FOUNDRY_RESOURCE": "r", "ANTHROPIC_FOUNDRY_API_KEY": "k"}),
        ("anthropic", {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "https://gateway.example.com"}),
    ],
)
def test_a_provider_is_set_up_by_the_variables_of_its_sdk(provider: str, environ: dict[str, str]) -> None:
    assert accounts_of(read_settings(environ)).has("acme", provider)
    assert not accounts_of(read_settings({})).has("acme", provider)


def test_two_gateways_are_two_accounts() -> None:
    one, other = (
        accounts_of(read_settings({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url}))
        for url in ("https://a.example.com", "https://b.example.com")
    )
    assert found(one).name != found(other).name


def test_a_key_is_shown_nowhere() -> None:
    account = found(accounts(key="very-secret"))
    settings = read_settings({"ANTHROPIC_API_KEY": "very-secret"})
    shown = (repr(account), str(account.key), account.name, repr(settings), repr(accounts_of(settings).providers))
    assert not [text for text in shown if "very-secret" in text]


def test_a_folder_of_keys_that_is_none_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="FOLDAHEAD_KEYS_DIR"):
        read_settings({"FOLDAHEAD_KEYS_DIR": str(tmp_path / "nothing")})
