"""Sessions of foldahead without a server: what benchmarks of the agent's own thread measure."""

from typing import Any

from foldahead import Policy, Session, wire
from foldahead.core.dialects import get_dialect
from foldahead.core.standing import Offer, Ready
from foldahead.outbox import Outbox

SUMMARY = (
    "The user wants lost rows found and mended and config/production.toml left alone. Read and mended so far: the "
    "store, the cursor and the retry. The suite passes but for case 41, which waits for the flush. "
) * 12


class SilentCarrier:
    """Takes what a session has to tell and sends it nowhere."""

    def __init__(self) -> None:
        self.outbox: Outbox | None = None

    def announce(self, session: Outbox) -> None:
        self.outbox = session

    def resume(self, session: Outbox, timeout_s: float) -> wire.Answer | None:  # noqa: ARG002 - the Carrier's
        return None

    def flush(self, timeout_s: float) -> bool:  # noqa: ARG002
        return True

    def forget(self, session: Outbox, timeout_s: float) -> None:
        pass

    def leave(self, session: Outbox) -> None:
        pass


class Lone:
    """A session whose link is silent, and what it would have told."""

    def __init__(self, policy: Policy, name: str = "bench") -> None:
        self._carrier = SilentCarrier()
        self.session = Session(name, "bench", get_dialect("anthropic"), policy, self._carrier)

    def told(self) -> wire.Delta:
        """What the link would send now; also looks ahead, as it does on the link's thread. After a publish."""
        delta = self._carrier.outbox.delta() if self._carrier.outbox else None
        if delta is None:
            raise ValueError("nothing was published yet")
        return delta

    def hand_summary(self, text: str = SUMMARY) -> None:
        """Have a summary ready for the span that the session offers. Raises ValueError when it offers none."""
        offer = self.told().standing.offer
        if offer is None or self._carrier.outbox is None:
            raise ValueError("the session offers no span: publish a longer history first")
        ready = ready_for(offer, text)
        self._carrier.outbox.receive(wire.Answer(known=True, ready=(ready,)))


def ready_for(offer: Offer, text: str) -> Ready:
    """A summary of an offered span, as a server would hand it over."""
    return Ready(
        cache_key=offer.head_end.hex(),
        kind="text",
        model="bench",
        start=offer.start,
        end=offer.end,
        head_end=offer.head_end,
        text=text,
        summary_tokens=len(text) // 4,
    )


def swapped(view: list[Any], history: list[Any]) -> bool:
    """Whether a view shows a summary."""
    return view is not history and len(view) < len(history)
