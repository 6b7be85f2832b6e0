"""What becomes of thinking in the kept messages when the conversation before it changes."""

from foldahead.core.ledger import Ledger
from foldahead.core.models import find_model
from foldahead.core.policy import Policy


def strips_thinking(policy: Policy, model: str) -> bool:
    """Whether a `text` summary takes the thinking behind it away.

    `auto`: for models that bind thinking to the conversation before it, and for unknown ones. `drop_block` leaves
    it to the provider, which drops what no longer fits.
    """
    if policy.tail_thinking != "auto":
        return policy.tail_thinking == "strip"
    known = find_model(model) if model else None
    return known.binds_thinking if known else True


def open_thinking_turn(ledger: Ledger) -> bool:
    """Whether the history ends inside a tool turn that began with thinking: its results are about to be answered."""
    if not len(ledger) or not ledger.traits[-1].results:
        return False
    since = ledger.last_real_user(len(ledger))
    first = since + 1 if since is not None else 0
    return any(traits.thinking for traits in ledger.traits[first:])
