"""`native` summaries: blocks that the Claude API writes and signs, and what they ask of the conversation around them.

A block goes first, unchanged, and counts for requests of the model, system prompt and tools that it was made with.
Thinking in the turns behind it stays valid if it stands for exactly what was sent before (facts.md, "On-demand
compaction" and "Preserved thinking").
"""

from typing import Any

import msgspec

from foldahead.core.ledger import Ledger
from foldahead.core.models import bare_name, find_model
from foldahead.core.policy import Policy
from foldahead.core.prompt import PROMPT_VERSION
from foldahead.core.record import GIVEN_UP, Record, record_of
from foldahead.core.standing import Ready
from foldahead.core.view import Active

NATIVE_DIALECT = "anthropic"
NATIVE_PROMPT_VERSION = f"native-{PROMPT_VERSION}"
"""The prompt is the provider's own unless there are instructions; then it is ours."""
MOST_GIVEN_UP = 2
"""Changes that made blocks be in vain after which a session whose requests keep changing gets `text` summaries."""
_MARK = "native"


def block_message(ready: Ready) -> Any:
    """The message that stands for a span: the block as it came, in the role that it came in."""
    return {"role": "assistant", "content": [msgspec.json.decode(ready.block)]}


def made_for(model: str, envelope: str) -> str:
    """The reason in a record of a `native` swap: whose requests its block may be part of."""
    return f"{_MARK}:{bare_name(model)}:{envelope}"


def is_native(span: Record) -> bool:
    """Whether a span's message is a block of the provider's."""
    return (span.reason or "").startswith(f"{_MARK}:")


def concerns_requests(policy: Policy, active: Active) -> bool:
    """Whether it matters what a session's requests hold beside model and messages: blocks are asked for, or shown."""
    return policy.kind == "native" or any(map(is_native, active.spans))


def fits(ready: Ready, model: str, envelope: str) -> bool:
    """Whether a request of this model and envelope may carry the block."""
    return bool(envelope) and made_for(ready.model, ready.envelope) == made_for(model, envelope)


def has_block(ready: Ready) -> bool:
    """Whether a ready summary holds a block that says something: it comes from Redis, and none may break a turn."""
    try:
        block: Any = msgspec.json.decode(ready.block)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    said: Any = block.get("content") if isinstance(block, dict) and block.get("type") == "compaction" else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return isinstance(said, str) and bool(said)


def follows(ready: Ready, active: Active) -> bool:
    """Whether a block goes on from what is shown: from the block in the view, or, where there is none, from the
    history, of which each block that was never shown is a part."""
    shown = next((span for span in reversed(active.spans) if is_native(span)), None)
    return shown is None or ready.parent == shown.cache_key


def may_stand(
    ready: Ready, ledger: Ledger, active: Active, model: str, envelope: str, asked_pins: frozenset[int]
) -> bool:
    """Whether a request of this model and envelope may carry a block, and nothing that stays asks to stand before
    it."""
    possible = ready.start == 0 and fits(ready, model, envelope) and ready.cache_key not in active.given_up
    return possible and may_be_native(ledger, active, model, asked_pins, ready.end)


def goes_on(ready: Ready, active: Active) -> bool:
    """Whether a block may take the place of what is shown. One that goes on from another block only has to at the
    hard cap: one that follows is to come. One made from the history alone is all that may come behind a text, an
    `extract` or a parent that is not stored any more."""
    return not ready.parent or follows(ready, active)


def misfits(ledger: Ledger, active: Active, model: str, envelope: str) -> list[Record]:
    """The spans in a view that no request of this model and envelope may carry, or none beside what the history holds.

    Before an envelope was seen nothing is known of the requests.
    """
    wanted, alone = made_for(model, envelope), stands_alone(ledger)
    blocks = [span for span in active.spans if is_native(span)]
    return [span for span in blocks if not alone or (envelope and span.reason != wanted)]


def stands_alone(ledger: Ledger) -> bool:
    """Whether a block of ours would be the only one of a request: the provider takes one, at its head.

    The agent may have asked for one itself. One that heads the history is summarised like any message; one behind
    that would stand beside ours, or, in the request for ours, at no head.
    """
    return not ledger.holds_block(1)


def given_up(ledger: Ledger, span: Record, now_ms: int) -> Record:
    """The record that takes a block out of the view for good."""
    return record_of(ledger.heads, "swapped", span.start, span.end, now_ms, cache_key=span.cache_key, reason=GIVEN_UP)


def bare_until(ledger: Ledger, active: Active) -> int | None:
    """Where the messages end that are sent without their thinking; 0: none is, None: more than that was changed.

    What was sent is then the history but for that, behind blocks of the provider's at most: what they stand for does
    not count.
    """
    kept = [edit for edit in active.edits if edit.end > active.end]
    if active.pins or not all(map(is_native, active.spans)) or any(edit.kind != "thinking_removed" for edit in kept):
        return None
    until, bare = max((edit.end for edit in kept), default=0), {edit.start for edit in kept}
    return until if bare.issuperset(ledger.thinking(active.end, until)) else None


def stands_for_what_was_sent(ready: Ready, ledger: Ledger, active: Active) -> bool:
    """Whether a block was made of just the messages that it is to stand for, from the block that is shown on."""
    until = bare_until(ledger, active)
    if until is None or not ready.keeps_thinking or not follows(ready, active):
        return False
    if until and ready.parent and not active.spans:
        return False  # it goes on from one that was never shown, and may be of what was sent before
    made, sent = (min(max(each, active.end), ready.end) for each in (ready.bare_until, until))
    return made == sent


def may_be_native(ledger: Ledger, active: Active, model: str, asked_pins: frozenset[int], end: int) -> bool:
    """Whether a block could stand for the messages up to `end`: nothing may stand ahead of it or beside it."""
    known = find_model(model) if model else None
    plain = ledger.dialect.name == NATIVE_DIALECT and ledger.stable_prefix_end() == 0 and stands_alone(ledger)
    pinned = any(pin < end for pin in asked_pins)
    return plain and known is not None and known.compacts and not pinned and active.times_given_up < MOST_GIVEN_UP
