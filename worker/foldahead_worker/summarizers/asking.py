"""Asking a Claude model: some prompts side by side, watched while they stream, their cost added up.

This module and what it imports load the SDK; a worker imports it when it has an account to use it with.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anthropic
from msgspec import Struct

from foldahead.core.models import Model, bare_name, find_model, unknown_model
from foldahead.core.prompt import Prompt
from foldahead.core.tokens import estimate_text
from foldahead_worker.summarizers.accounts import Account
from foldahead_worker.summarizers.api_errors import translated
from foldahead_worker.summarizers.clients import Clients
from foldahead_worker.summarizers.protocol import Check, Cost, Interrupted, SummarizerError, Watch, came_of
from foldahead_worker.summarizers.streaming import OpenCall, Reply

CALLS_AT_ONCE = 8
LOOK_EVERY_S = 0.25
"""How often the work looks whether it is to stop, while nothing comes."""
TOKENS_AT_MOST = 1.6
"""Of what is estimated: 1.3 for the tokenizer of Opus 4.7 and later (facts of 2026-11), the rest for what
is no prose.
"""
FRAMING_TOKENS = 64


class Room(Struct, frozen=True, kw_only=True):
    """How a model may be asked. `name` is the one that the provider knows it by."""

    name: str
    model: Model
    transcript_tokens: int
    """Estimated tokens that one prompt's material may have."""
    max_tokens: int
    """Of one answer, thinking included."""


class Asking(Struct, frozen=True, kw_only=True):
    """One request: its body as the SDK takes it, what it can cost, and the estimated tokens of its prompt."""

    body: dict[str, Any]
    most: Cost
    prompt_tokens: int


def most_of(room: Room, prompt_tokens: int, *, writes_cache: bool = False) -> Cost:
    """What a call can cost whose prompt is estimated at so many tokens; with a cache breakpoint it may be written."""
    input_tokens = int(prompt_tokens * TOKENS_AT_MOST) + FRAMING_TOKENS
    price = room.model.price_at(input_tokens)
    read = {"cache_write_tokens": input_tokens} if writes_cache else {"input_tokens": input_tokens}
    picodollars = 0 if price is None else price.picodollars(**read, output_tokens=room.max_tokens)
    return Cost(picodollars=picodollars, input_tokens=input_tokens, output_tokens=room.max_tokens)


def priced(name: str, models: Mapping[str, Model]) -> Model:
    """What is known of the model that a request names. Raises `SummarizerError` for one that has no price."""
    model = find_model(name, models)
    if model is None or model.price is None:
        raise SummarizerError(unknown_model(name), code="unknown_model")
    return model


class ModelSummarizer:
    """What summarisers that ask a Claude model have in common, for the workspace that the account pays for."""

    def __init__(
        self, account: Account, clients: Clients, watch: Watch, models: Mapping[str, Model] | None = None
    ) -> None:
        """`models`: what the operator says of models, beside what is known."""
        self._account = account
        self._clients = clients
        self._watch = watch
        self._models = models or {}
        self.account = account.name

    def _asked(self, room: Room, check: Check, ask: Callable[["Asker"], Reply]) -> tuple[Reply, Cost]:
        """What came of asking, and the cost of all calls. Errors tell it as well."""
        asker = Asker(self._account, self._clients, self._watch, room, check)
        try:
            return ask(asker), asker.cost
        except (SummarizerError, Interrupted) as error:
            error.cost = asker.cost
            raise


class Asker:
    """Asks for one summary, in as many calls as it takes. `cost` is what all of them were billed, or may have been."""

    def __init__(self, account: Account, clients: Clients, watch: Watch, room: Room, check: Check) -> None:
        """Raises `SummarizerError` when the SDK has no client for the account."""
        self._account = account
        self._watch = watch
        self._room = room
        self._check = check
        self.cost = Cost()
        try:
            self._client = clients.of(account)
        except (anthropic.AnthropicError, ImportError, ValueError) as error:
            raise translated(error, Cost()) from error

    def ask(self, prompts: Sequence[Prompt]) -> list[Reply]:
        """The replies to prompts, as `send`."""
        return self.send([self._asking(prompt) for prompt in prompts])

    def send(self, askings: Sequence[Asking]) -> list[Reply]:
        """The replies, in order. Raises `SummarizerError` of the first that failed, and what `check` raises."""
        replies: list[Reply] = []
        for at in range(0, len(askings), CALLS_AT_ONCE):
            self._check(new_call=True)
            some = askings[at : at + CALLS_AT_ONCE]
            calls = [OpenCall(self._client, one.body, self._room.model, one.most).start() for one in some]
            try:
                self._wait_for(calls)
            finally:
                self.cost = sum((call.cost for call in calls), self.cost)
            replies += self._collected(calls, some)
        return replies

    def _asking(self, prompt: Prompt) -> Asking:
        room, prompt_tokens = self._room, estimate_text(prompt.text)
        body: dict[str, Any] = {
            "model": room.name,
            "max_tokens": room.max_tokens,
            "system": prompt.system,
            "messages": [{"role": "user", "content": prompt.user}],
        }
        if room.model.effort:
            body["output_config"] = {"effort": "low"}
        return Asking(body=body, most=most_of(room, prompt_tokens), prompt_tokens=prompt_tokens)

    def _wait_for(self, calls: Sequence[OpenCall]) -> None:
        try:
            for call in calls:
                while not call.wait(LOOK_EVERY_S):
                    self._check()
        except BaseException:
            for call in calls:
                call.abandon()
            raise

    def _collected(self, calls: Sequence[OpenCall], askings: Sequence[Asking]) -> list[Reply]:
        replies: list[Reply] = []
        failed: SummarizerError | None = None
        for call, asking in zip(calls, askings, strict=True):
            try:
                replies.append(call.reply())
                self._watch.report(self._account.name, self._room.name, "answered", limits=call.limits)
            except SummarizerError as error:
                failed = failed or error
                self._note(error, asking)
        if failed is not None:
            raise failed
        return replies

    def _note(self, error: SummarizerError, asking: Asking) -> None:
        came = came_of(error)
        self._watch.report(self._account.name, self._room.name, came, retry_after_s=error.retry_after_s)
        # "Prompt is too long" has no code of its own; whether it can be that is known from the prompt.
        long = asking.prompt_tokens * TOKENS_AT_MOST > self._room.model.window_tokens / 2
        if error.status == 400 and error.code == "invalid_request_error" and long:
            error.too_large = True


def known_by(model: str) -> str:
    """The name to ask a provider for: what stands behind `provider:`."""
    return model.partition(":")[2] or bare_name(model)
