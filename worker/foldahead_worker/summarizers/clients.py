"""The SDK's clients, one for each account, kept while they are used."""

import threading
from collections import OrderedDict
from typing import Any

import anthropic
from anthropic.lib.bedrock import AnthropicBedrock
from anthropic.lib.vertex import AnthropicVertex

from foldahead_worker.summarizers.accounts import Account, Providers

MOST_CLIENTS = 64
CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0
"""The longest silence within a stream: the API sends a ping every few seconds. The call's deadline is
another matter.
"""


class Clients:
    """Clients by account, the least recently used given up beyond `MOST_CLIENTS`. For many threads."""

    def __init__(self, providers: Providers) -> None:
        self._providers = providers
        self._lock = threading.Lock()
        self._clients: OrderedDict[str, anthropic.Anthropic] = OrderedDict()

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def of(self, account: Account) -> anthropic.Anthropic:
        """The client of an account; all of the SDK's clients are used alike. Retries are off: rows retry.

        Raises what the SDK raises where an extra of it is not installed or the account is incomplete.
        """
        with self._lock:
            client = self._clients.get(account.name)
            if client is None:
                client = _made(account, self._providers)
                self._clients[account.name] = client
            self._clients.move_to_end(account.name)
            while len(self._clients) > MOST_CLIENTS:
                # Not closed: a call may still be using it; it goes with the last of them.
                self._clients.popitem(last=False)
            return client


def _made(account: Account, providers: Providers) -> Any:
    timeout = anthropic.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    common: dict[str, Any] = {"max_retries": 0, "timeout": timeout}
    if account.base_url:
        common["base_url"] = account.base_url
    key = account.key.reveal()
    match account.provider:
        case "bedrock":
            return AnthropicBedrock(aws_region=providers.aws_region, api_key=key or None, **common)
        case "vertex":
            return AnthropicVertex(region=providers.vertex_region, project_id=providers.vertex_project, **common)
        case "foundry":
            if not account.base_url:
                common["resource"] = providers.foundry_resource
            return anthropic.AnthropicFoundry(api_key=key, **common)
        case _:
            return anthropic.Anthropic(api_key=key, **common)
