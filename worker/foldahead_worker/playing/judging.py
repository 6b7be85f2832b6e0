"""Whether a provider would take a request: the stand-in's strict judges, and what is the recording's own fault."""

from collections.abc import Sequence
from typing import Any

from foldahead_worker.playing.frame import Frame
from foldahead_worker.standin.fault import Fault
from foldahead_worker.standin.openai_rules import faults as openai_faults
from foldahead_worker.standin.rules import faults as anthropic_faults


def faults_of(dialect: str, request: dict[str, Any]) -> list[Fault]:
    """What a provider would refuse in a request. Block types from the future and reused ids pass, as recorded."""
    if dialect == "openai":
        return openai_faults(request["messages"], allow_reused_ids=True, allow_unknown_blocks=True)
    return anthropic_faults(
        request, allow_reused_ids=True, allow_unknown_blocks=True, allow_missing_tools="tools" not in request
    )


def judged(frame: Frame, request: dict[str, Any], history: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Faults of a request that stands for a history: (ours, the recording's)."""
    found = faults_of(frame.dialect, request)
    if not found:
        return [], []
    recorded = {fault.message for fault in recorded_faults(frame, history)}
    ours = [str(fault) for fault in found if fault.message not in recorded]
    return ours, [str(fault) for fault in found if fault.message in recorded]


def recorded_faults(frame: Frame, history: Sequence[Any]) -> list[Fault]:
    """What a provider would refuse in the recorded request itself."""
    return faults_of(frame.dialect, frame.around(list(history)))
