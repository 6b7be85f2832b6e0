"""What becomes of thinking in the kept messages when the conversation before it changes."""

from collections.abc import Iterable

from foldahead.core.dialect import Dialect
from foldahead.core.ledger import Ledger
from foldahead.core.models import find_model
from foldahead.core.policy import Policy
from foldahead.core.record import Record, record_of
from foldahead.core.view import Active

_BOUND = "bound to a different conversation"


def says_bound(error: BaseException) -> bool:
    """Whether a provider refused thinking for the conversation before it. It has no code of its own (facts.md)."""
    return _BOUND in str(error)


def strips_thinking(policy: Policy, model: str, dialect: Dialect, active: Active) -> bool:
    """Whether a change of the conversation before it takes thinking away.

    `auto`: for models that bind thinking to the conversation before it, by what is known of them or by what the
    provider said, and for unknown ones of a provider that has such models. `drop_block` leaves it to the provider,
    which drops what no longer fits.
    """
    if policy.tail_thinking != "auto":
        return policy.tail_thinking == "strip"
    if active.binds_thinking:
        return True
    known = find_model(model) if model else None
    return known.binds_thinking if known else dialect.profile.binds_thinking


def open_thinking_turn(ledger: Ledger) -> bool:
    """Whether the history ends inside a tool turn that began with thinking: its results are about to be answered."""
    if not len(ledger) or not ledger.traits[-1].results:
        return False
    since = ledger.last_real_user(len(ledger))
    return ledger.thinks(since + 1 if since is not None else 0)


def removed_thinking(ledger: Ledger, active: Active, indices: Iterable[int], reason: str, now_ms: int) -> list[Record]:
    """One record for each of these messages that has thinking: each holds on whatever branch still has that message.

    `reason` names the change that it could not outlive.
    """
    done = {record.start for record in active.edits if record.kind == "thinking_removed"}
    return [
        record_of(ledger.heads, "thinking_removed", index, index + 1, now_ms, reason=reason)
        for index in indices
        if ledger.traits[index].thinking and index not in done
    ]
