"""The gate to the providers, shared by all workers through Redis: may this account be asked now, and how
much.

A breaker opens when an account's calls fail in a row, and lets one probe through before all others; buckets
of requests and tokens a minute are learned from its responses; a workspace whose account is refused is
stopped until its key changes or somebody says otherwise. Redis may lose all of it: then it is learned again.
"""

import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

import redis
from msgspec import Struct

from foldahead import keys, wire
from foldahead.core.models import bare_name
from foldahead_worker.calling import RELOAD_ON
from foldahead_worker.library import load
from foldahead_worker.summarizers.accounts import Accounts
from foldahead_worker.summarizers.protocol import Came, Forecast, Limit

PROBE_S = 60.0
"""How long one probe may keep all others waiting."""
_log = logging.getLogger("foldahead.gate")


class Admission(Struct, frozen=True, kw_only=True):
    """Whether a job may ask its provider now. `why` not: open, probing, ramp or rate; of a granted one `probe`."""

    granted: bool
    wait_s: float = 0.0
    why: str = ""

    @property
    def is_probe(self) -> bool:
        """The one call that finds out whether the account answers again."""
        return self.granted and self.why == "probe"


class Stop(Struct, frozen=True, kw_only=True):
    """A workspace that is stopped: the account that was refused, and how."""

    workspace: str
    account: str
    reason: str


class Gate:
    """For many threads. Raises redis.RedisError when Redis cannot be asked, but for `report`, which may be lost."""

    def __init__(self, client: "redis.Redis", accounts: Accounts) -> None:
        """`accounts` tell whether a stopped workspace has another key by now."""
        self._client: Any = client
        self._accounts = accounts

    def admit(self, account: str, model: str, forecast: Forecast) -> Admission:
        """Ask for room for all calls of a job at once."""
        arguments = (forecast.calls, forecast.input_tokens, forecast.output_tokens, int(PROBE_S * 1000))
        granted, wait_ms, why = self._call("fold_admit", _key(account, model), *arguments)
        return Admission(granted=bool(granted), wait_s=int(wait_ms) / 1000, why=why.decode())

    def report(
        self,
        account: str,
        model: str,
        came: Came,
        *,
        retry_after_s: float = 0.0,
        limits: Sequence[Limit] = (),
    ) -> None:
        """Say what came of a call."""
        told = [value for limit in limits for value in (limit.name, limit.a_minute, limit.remaining)]
        try:
            self._call("fold_report", _key(account, model), came, int(retry_after_s * 1000), *told)
        except redis.RedisError as error:
            _log.warning("what came of a call is not shared: %s", type(error).__name__)

    def stop(self, workspace: str, account: str, reason: str) -> bool:
        """Stop a workspace; the first to say so for that account raises the one alarm, and gets True."""
        first = bool(self._call("fold_stop", keys.STOPPED_HASH, quote(workspace, safe=""), account, reason))
        if first:
            _log.error(
                "ALARM workspace %s: its provider refused its account (%s). Its summaries stand still until its key "
                "changes or `foldahead resume %s` is given.",
                workspace,
                reason,
                workspace,
            )
        return first

    def stopped(self) -> tuple[Stop, ...]:
        """All stopped workspaces."""
        said: dict[bytes, bytes] = self._client.hgetall(keys.STOPPED_HASH)
        return tuple(
            _stop(unquote(workspace.decode()), value.decode("utf-8", "replace")) for workspace, value in said.items()
        )

    def stopped_workspaces(self) -> tuple[str, ...]:
        """Those that are still to be left alone: whose account here is the refused one, or unknown."""
        return tuple(stop.workspace for stop in self.stopped() if not self._has_changed(stop))

    def _has_changed(self, stop: Stop) -> bool:
        names = {account.name for account in self._accounts.all_of(stop.workspace)}
        if not names or stop.account in names:
            return False
        _log.warning("workspace %s goes on: its key has changed", stop.workspace)
        return self.resume(stop.workspace) or True

    def resume(self, workspace: str) -> bool:
        """Let a workspace go on. Returns whether it was stopped."""
        return bool(self._client.hdel(keys.STOPPED_HASH, quote(workspace, safe="")))

    def _call(self, function: str, key: str, *arguments: str | int) -> Any:
        try:
            return self._client.fcall(function, 1, key, wire.WIRE_VERSION, *arguments)
        except redis.ResponseError as error:
            if RELOAD_ON not in str(error):
                raise
            load(self._client)
            return self._client.fcall(function, 1, key, wire.WIRE_VERSION, *arguments)


def _key(account: str, model: str) -> str:
    return keys.account(f"{account}/{bare_name(model)}")


def _stop(workspace: str, said: str) -> Stop:
    account, _, reason = said.partition(" ")
    return Stop(workspace=workspace, account=account, reason=reason)
