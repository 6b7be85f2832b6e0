"""The JSON of `foldahead play --json` (design section 8)."""

from collections.abc import Sequence
from typing import Any

import msgspec

from foldahead_worker.playing.hearing import Heard
from foldahead_worker.playing.plays import SessionPlayed
from foldahead_worker.playing.tally import percentile


def session_object(played: SessionPlayed, heard: Heard) -> dict[str, Any]:
    """One session."""
    return {
        "session": played.session,
        "file": played.file,
        "messages": played.messages,
        "turns": played.turns,
        "swaps": [msgspec.to_builtins(swap) for swap in played.swaps],
        "tokens_sent": played.tokens_sent,
        "tokens_sent_without": played.tokens_sent_without,
        "validity_faults": list(played.validity_faults),
        "degraded": [msgspec.to_builtins(one) for one in played.degraded],
        "not_worth_it": list(played.not_worth_it),
        "paid": heard.paid,
        "reused": heard.reused,
        "no_swap_added_ms": {
            "p50": percentile(list(played.quiet_ms), 0.5),
            "p99": percentile(list(played.quiet_ms), 0.99),
        },
        "added_ms_max": _worst_ms([played]),
        "failed": list(heard.failed),
        "elided_turns": played.elided_turns,
        "exhausted_turns": played.exhausted_turns,
        "cost_usd": heard.cost_usd,
        "notes": list(played.notes),
        "requests": played.requests,
        "refused": played.refused,
        "recording_faults": list(played.recording_faults),
    }


def totals_object(played: Sequence[SessionPlayed], heard: Sequence[Heard], seconds: float) -> dict[str, Any]:
    """All sessions together; faults and degraded turns are counted."""
    quiet_ms = [value for one in played for value in one.quiet_ms]
    sent, without = sum(one.tokens_sent for one in played), sum(one.tokens_sent_without for one in played)
    return {
        "sessions": len(played),
        "messages": sum(one.messages for one in played),
        "turns": sum(one.turns for one in played),
        "swaps": sum(len(one.swaps) for one in played),
        "tokens_sent": sent,
        "tokens_sent_without": without,
        "saved_ratio": round(1 - sent / without, 4) if without else 0.0,
        "validity_faults": sum(len(one.validity_faults) for one in played),
        "degraded": sum(len(one.degraded) for one in played),
        "paid": sum(one.paid for one in heard),
        "reused": sum(one.reused for one in heard),
        "cost_usd": sum(one.cost_usd for one in heard),
        "no_swap_added_ms": {"p50": percentile(quiet_ms, 0.5), "p99": percentile(quiet_ms, 0.99)},
        "added_ms_max": _worst_ms(played),
        "seconds": round(seconds, 1),
        "requests": sum(one.requests for one in played),
        "refused": sum(one.refused for one in played),
        "recording_faults": sum(len(one.recording_faults) for one in played),
    }


def _worst_ms(played: Sequence[SessionPlayed]) -> float:
    """The most that `request` added to a turn, with a swap or without."""
    swaps_ms = [swap.added_ms for one in played for swap in one.swaps]
    return round(max([*swaps_ms, *(value for one in played for value in one.quiet_ms)], default=0.0), 3)
