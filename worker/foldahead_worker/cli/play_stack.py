"""What a run of `foldahead play` has behind it: the user's stack, or one of its own, with a stand-in or without."""

import contextlib
from collections.abc import Generator

import msgspec
from msgspec import Struct

from foldahead.core.models import PICO_PER_USD
from foldahead_worker.cli.faults import BadInput
from foldahead_worker.settings import Settings, keyless_environment, names_a_redis, read_settings
from foldahead_worker.stack import Stack, StackError, private_stack
from foldahead_worker.standin import Options, RunningStandIn, start_standin
from foldahead_worker.standin.models import find_model
from foldahead_worker.summarizers.accounts import Providers

FAKE = "fake"
SUMMARY_KEY = "stand-in-summaries"
"""The made-up key of the worker."""


class Bill(Struct, frozen=True, kw_only=True):
    """The summaries of a run as the stand-in has them in its books, and what foldahead's say they cost."""

    summary_calls: int
    summary_calls_refused: int
    billed_usd: float | None
    """None: the stand-in has no price for a model that was asked."""
    booked_usd: float


class Running:
    """A stack that runs."""

    def __init__(self, settings: Settings, stack: Stack | None = None, standin: RunningStandIn | None = None) -> None:
        self.settings = settings
        self._stack = stack
        self._standin = standin

    @property
    def standin_url(self) -> str:
        """Where the stand-in listens; empty where there is none."""
        return self._standin.url if self._standin else ""

    @property
    def rules_only(self) -> bool:
        """Whether summaries are made by rules, whatever model a policy names."""
        return self.settings.summarizer == "extract" or not self.settings.anthropic_api_key

    def check(self) -> None:
        """Raises StackError when a process of it has ended that was started here."""
        if self._stack is not None:
            self._stack.check()
        if self._standin is not None and not self._standin.is_alive():
            raise StackError("the stand-in of the Claude API ended")

    def bill(self) -> Bill | None:
        """What the summaries so far cost; None without a stand-in."""
        if self._standin is None:
            return None
        calls = [call for call in self._standin.ledger() if call.api_key == SUMMARY_KEY]
        prices = [call.picodollars for call in calls]
        unknown = any(price is None for price in prices)
        return Bill(
            summary_calls=len(calls),
            summary_calls_refused=sum(call.outcome == "refused" for call in calls),
            billed_usd=None if unknown else sum(price or 0 for price in prices) / PICO_PER_USD,
            booked_usd=_booked_usd(self.settings),
        )


def fake_model(named: str | None) -> str | None:
    """Which model agents ask a stand-in for, of a `--model`: empty for the recorded ones, None without a stand-in.

    Raises BadInput.
    """
    if named is None:
        return None
    kind, _, model = named.partition(":")
    if kind != FAKE:
        raise BadInput(f"--model: expected fake, or fake:NAME as in fake:claude-sonnet-5-5, got {named!r}")
    if model and find_model(model) is None:
        raise BadInput(f"--model: the stand-in serves no {model!r}; it does serve claude-sonnet-5-5")
    return model


@contextlib.contextmanager
def running_stack(summary_s: float | None, *, fake: bool) -> Generator[Running]:
    """The user's stack, or one of our own for as long as this takes. Raises BadInput, StackError, StandInFailed."""
    settings = read_settings()
    if names_a_redis():
        _refuse_for_theirs(summary_s, fake=fake)
        # Imported here: not needed where the stack is our own.
        from foldahead_worker.cli.reaching import expect_stack

        expect_stack(settings)
        yield Running(settings)
        return
    own = msgspec.structs.replace(settings, summary_delay_s=summary_s or settings.summary_delay_s)
    if not fake:
        with private_stack(own) as stack:
            yield Running(stack.settings, stack)
        return
    environ = keyless_environment()
    with (
        start_standin(_standin_options(), environ=environ) as standin,
        private_stack(_asking(own, standin), environ) as stack,
    ):
        yield Running(stack.settings, stack, standin)


def _refuse_for_theirs(summary_s: float | None, *, fake: bool) -> None:
    if fake:
        raise BadInput("--model fake sets up the worker of a stack that play starts itself: unset FOLDAHEAD_REDIS_URL")
    if summary_s is not None:
        raise BadInput(
            "--summary-seconds slows the worker of a stack that play starts itself: unset FOLDAHEAD_REDIS_URL, "
            "or start the worker with FOLDAHEAD_SUMMARY_DELAY_S"
        )


def _standin_options() -> Options:
    """As strict as it can be about what foldahead does. Ids and block types are the recordings' own affair."""
    from foldahead_worker.playing.providers import AGENT_KEY

    return Options(
        foreign_thinking="refuse",
        changed_envelope="refuse",
        api_keys=(AGENT_KEY, SUMMARY_KEY),
        allow_reused_ids=True,
        allow_unknown_blocks=True,
    )


def _asking(settings: Settings, standin: RunningStandIn) -> Settings:
    """The settings of servers that know no other provider."""
    return msgspec.structs.replace(
        settings,
        summarizer="auto",
        anthropic_api_key=SUMMARY_KEY,
        anthropic_base_url=standin.url,
        providers=Providers(),
    )


def _booked_usd(settings: Settings) -> float:
    from foldahead_worker.spending import report_spend
    from foldahead_worker.store import open_store

    store = open_store(settings.database_url)
    try:
        return report_spend(store).cost_usd
    finally:
        store.close()
