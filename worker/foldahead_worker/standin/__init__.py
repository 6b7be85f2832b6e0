"""A stand-in for the Claude API, strict and scripted, for tests, the demo and `foldahead play`.

It speaks the routes that foldahead uses, refuses what the real API refuses, bills by a prompt cache and
keeps a ledger. `rules.faults` and `openai_rules.faults` judge requests without any server.
"""

from foldahead_worker.standin.fault import Fault, Tolerance
from foldahead_worker.standin.ledger import Call
from foldahead_worker.standin.openai_rules import faults as openai_faults
from foldahead_worker.standin.options import Options
from foldahead_worker.standin.process import RunningStandIn, StandInFailed, start_standin
from foldahead_worker.standin.rules import faults as anthropic_faults
from foldahead_worker.standin.script import Scripted, ToolCall

__all__ = [
    "Call",
    "Fault",
    "Options",
    "RunningStandIn",
    "Scripted",
    "StandInFailed",
    "Tolerance",
    "ToolCall",
    "anthropic_faults",
    "openai_faults",
    "start_standin",
]
