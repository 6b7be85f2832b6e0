"""Sessions of foldahead without a server: what benchmarks of the agent's own thread measure."""

from typing import Any

from foldahead import Policy, Session, wire
from foldahead.core.dialects import get_dialect
from foldahead.core.standing import Ready

SUMMARY = (
    "The user wants lost rows found and mended and config/production.toml left alone. Read and mended so far: the "
    "store, the cursor and the retry. The suite passes but for case 41, which waits for the flush. "
) * 12


class SilentCarrier:
    """Takes what a session has to tell and sends it nowhere."""

    def announce(self, session: Session) -> None:
        pass

    def resume(self, session: Session, timeout_s: float) -> wire.Answer | None:
        return None

    def flush(self, timeout_s: float) -> bool:
        return True

    def forget(self, session: Session, timeout_s: float) -> None:
        pass


def lone_session(policy: Policy, name: str = "bench") -> Session:
    """A session whose link is silent."""
    return Session(name, "bench", get_dialect("anthropic"), policy, SilentCarrier())


def hand_summary(session: Session, text: str = SUMMARY, cache_key: str = "bench") -> Ready:
    """Have a summary ready for the span that the session offers. Raises ValueError when it offers none."""
    delta = session.delta()
    offer = delta.standing.offer if delta else None
    if offer is None:
        raise ValueError("the session offers no span: publish a longer history first")
    ready = Ready(
        cache_key=cache_key,
        kind="text",
        model="bench",
        start=offer.start,
        end=offer.end,
        head_end=offer.head_end,
        text=text,
        summary_tokens=len(text) // 4,
    )
    session.receive(wire.Answer(known=True, ready=(ready,)))
    return ready


def swapped(view: list[Any], history: list[Any]) -> bool:
    """Whether a view shows a summary."""
    return view is not history and len(view) < len(history)
