"""Whose account pays for a workspace's summaries: keys come from the environment or from files, and go to the
SDK.

A key is in no row, task, event or log: an `Account` shows its name, a hash, and nothing else.
docs/operations.md, "Keys and providers", says how each provider is set up.
"""

import hashlib
import logging
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

PROVIDERS = ("anthropic", "bedrock", "vertex", "foundry")
_NAME_CHARS = 16
_log = logging.getLogger("foldahead.accounts")


class Secret:
    """A text that is not shown by accident."""

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value

    def reveal(self) -> str:
        """The text itself, for the one place that sends it."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "Secret(***)" if self._value else "Secret()"


class Providers(Struct, frozen=True, kw_only=True):
    """Where models are asked, as the settings say. An empty base URL is the provider's own.

    `keys_dir`: a folder with a file `<provider>/<workspace, percent-encoded>` for each workspace that has a
    key of its own; the keys here are for all others.
    """

    anthropic_key: Secret = Secret()
    anthropic_base_url: str = ""
    foundry_key: Secret = Secret()
    foundry_resource: str = ""
    foundry_base_url: str = ""
    bedrock_key: Secret = Secret()
    """Optional: without it the AWS credential chain of boto3 signs."""
    aws_region: str = ""
    bedrock_base_url: str = ""
    vertex_region: str = ""
    vertex_project: str = ""
    vertex_base_url: str = ""
    keys_dir: Path | None = None


class Account(Struct, frozen=True, kw_only=True):
    """An account at a provider. `name` stands for it in Redis and in logs; another key is another name."""

    name: str
    provider: str
    key: Secret
    base_url: str = ""


class Accounts:
    """Finds accounts. Key files are read each time, so that a key that was changed counts at once."""

    def __init__(self, providers: Providers) -> None:
        self.providers = providers

    def find(self, workspace: str, provider: str) -> Account | None:
        """The account that pays for a workspace at a provider; None where there is none."""
        if not self._is_set_up(provider):
            return None
        key = self._key(workspace, provider)
        if not key and provider in ("anthropic", "foundry"):
            return None
        base_url = self._base_url(provider)
        identity = "\0".join((provider, base_url, self._place(provider), key.reveal()))
        digest = hashlib.sha256(f"foldahead account\0{identity}".encode()).hexdigest()
        return Account(name=digest[:_NAME_CHARS], provider=provider, key=key, base_url=base_url)

    def has(self, workspace: str, provider: str) -> bool:
        """Whether a workspace has an account at a provider."""
        return self.find(workspace, provider) is not None

    def all_of(self, workspace: str) -> tuple[Account, ...]:
        """The accounts that a workspace has, at any provider."""
        found = (self.find(workspace, provider) for provider in PROVIDERS)
        return tuple(account for account in found if account is not None)

    def any_at_all(self) -> bool:
        """Whether some workspace may have an account somewhere."""
        return self.providers.keys_dir is not None or bool(self.all_of(""))

    def _is_set_up(self, provider: str) -> bool:
        given = self.providers
        match provider:
            case "anthropic":
                return True
            case "foundry":
                return bool(given.foundry_resource or given.foundry_base_url)
            case "bedrock":
                return bool(given.aws_region)
            case "vertex":
                return bool(given.vertex_region and given.vertex_project)
            case _:
                return False

    def _key(self, workspace: str, provider: str) -> Secret:
        own = self._own_key(workspace, provider)
        if own is not None:
            return own
        given = self.providers
        shared = {
            "anthropic": given.anthropic_key,
            "foundry": given.foundry_key,
            "bedrock": given.bedrock_key,
        }
        return shared.get(provider, Secret())

    def _own_key(self, workspace: str, provider: str) -> Secret | None:
        name = quote(workspace, safe="")
        if self.providers.keys_dir is None or name in ("", ".", ".."):
            return None
        path = self.providers.keys_dir / provider / name
        try:
            return Secret(path.read_text("utf8").strip())
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            # Not the shared key instead: somebody else would pay.
            _log.error(
                "workspace %s: its key file for %s cannot be read: %s",
                workspace,
                provider,
                type(error).__name__,
            )
            return Secret()

    def _base_url(self, provider: str) -> str:
        given = self.providers
        return {
            "anthropic": given.anthropic_base_url,
            "foundry": given.foundry_base_url,
            "bedrock": given.bedrock_base_url,
            "vertex": given.vertex_base_url,
        }[provider]

    def _place(self, provider: str) -> str:
        given = self.providers
        return {
            "anthropic": "",
            "foundry": given.foundry_resource,
            "bedrock": given.aws_region,
            "vertex": f"{given.vertex_region}/{given.vertex_project}",
        }[provider]
