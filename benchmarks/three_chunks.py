"""Five hundred random histories, each fed in three chunks: is every view valid, compacted where due, and complete?

    python -m benchmarks.three_chunks

The histories are those of fixed seeds; 135 of them hold results whose calls were lost. Each goes through a session twice:
with a scripted model, and with summaries by rules. Every view is judged by the judges of the stand-in API. A user message
is kept if the view holds it, and summarised if the summariser was shown it (by rules: if the summary holds it).
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.random_histories import RandomHistory, random_history
from benchmarks.report import Report, Row, Target, finish, parser
from foldahead.core.policy import Policy
from foldahead.testing import LocalSession
from foldahead_worker.standin import openai_rules, rules

HISTORIES, WITH_ORPHANS, CHUNKS = 500, 135, 3
LEAST_COMPACTED = 0.9
POLICY = Policy(threshold_tokens=2_000, hard_cap_tokens=8_000, preserve_recent_turns=3, min_span_tokens=200)
_NUMBERED = re.compile(r"\[summary (\d+)\]")


@dataclass
class Notebook:
    """A scripted model: its summaries are short and numbered, so that what each was made of can be followed."""

    prompts: list[str] = field(default_factory=list)

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return f"[summary {len(self.prompts)}] They read files and mended what was asked for, step by step."

    def shown_for(self, text: str) -> str:
        """All that was shown for the summaries that a text holds, and for those folded into them."""
        shown: list[str] = []
        open_numbers = set(map(int, _NUMBERED.findall(text)))
        known: set[int] = set()
        while open_numbers - known:
            number = (open_numbers - known).pop()
            known.add(number)
            shown.append(self.prompts[number - 1])
            open_numbers |= set(map(int, _NUMBERED.findall(shown[-1])))
        return "\n".join(shown)


@dataclass
class Tally:
    """What came of some histories."""

    histories: int = 0
    orphaned: int = 0
    views: int = 0
    invalid: int = 0
    due: int = 0
    compacted: int = 0
    said: int = 0
    lost: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list)

    @property
    def compacted_share(self) -> float:
        return self.compacted / self.due if self.due else 1.0


def faults_of(view: Sequence[Any], dialect: str) -> list[str]:
    """Why a provider would refuse a view; ids used again in a later turn are the agent's own."""
    if dialect.startswith("openai"):
        return [str(fault) for fault in openai_rules.faults(list(view), allow_reused_ids=True)]
    request = {"model": "a-model-unknown-to-the-judge", "max_tokens": 100, "messages": list(view)}
    return [str(fault) for fault in rules.faults(request, allow_missing_tools=True, allow_reused_ids=True)]


def feed(told: RandomHistory, tally: Tally, summarize: Notebook | None, policy: Policy = POLICY) -> None:
    """One history through one session, chunk by chunk."""
    session = LocalSession(policy, told.dialect, summarize)
    tally.histories += 1
    tally.orphaned += told.orphaned
    for length in told.chunks(CHUNKS):
        history = told.messages[:length]
        session.publish(history)
        view = session.view(history)
        tally.views += 1
        if faults := faults_of(view, told.dialect):
            tally.invalid += 1
            tally.faults.append(f"{told.dialect}, {length} messages: {faults[0]}")
        plan = session.plan
        if plan.tokens_before >= policy.threshold:
            tally.due += 1
            tally.compacted += plan.outcome != "unchanged"
        tally.outcomes[plan.outcome if plan.outcome != "unchanged" else plan.reason] += 1
        _account_for(told.wishes_up_to(length), view, summarize, tally)


def _account_for(wishes: Sequence[str], view: Sequence[Any], summarize: Notebook | None, tally: Tally) -> None:
    """Every user message is in the view or was shown to what made a summary in it."""
    shown = json.dumps(list(view), ensure_ascii=False)
    behind = shown + (summarize.shown_for(shown) if summarize else "")
    tally.said += len(wishes)
    lost = [wish for wish in wishes if wish.rstrip(".") not in behind]
    tally.lost += len(lost)
    tally.faults += [f"neither kept nor summarised: {wish[:40]}" for wish in lost]


WAYS: dict[str, Callable[[], Notebook | None]] = {"text (scripted)": Notebook, "extract": lambda: None}


def tallies(histories: int, with_orphans: int) -> dict[str, Tally]:
    """Both ways over so many histories, the first of them with orphans."""
    found: dict[str, Tally] = {}
    for way, summarizer in WAYS.items():
        tally = found[way] = Tally()
        for seed in range(histories):
            feed(random_history(seed, orphaned=seed < with_orphans), tally, summarizer())
    return found


def row_of(way: str, tally: Tally) -> Row:
    return {
        "way": way,
        "histories": tally.histories,
        "with orphans": tally.orphaned,
        "views": tally.views,
        "invalid": tally.invalid,
        "due": tally.due,
        "compacted": tally.compacted,
        "compacted %": round(100 * tally.compacted_share, 1),
        "user messages": tally.said,
        "lost": tally.lost,
    }


def run(histories: int, with_orphans: int) -> Report:
    found = tallies(histories, with_orphans)
    targets: list[Target] = []
    for way, tally in found.items():
        targets += [
            Target(f"invalid views, {way}", 0, tally.invalid, ""),
            Target(f"compacted of those due, {way}", LEAST_COMPACTED, tally.compacted_share, "", at_most=False),
            Target(f"user messages neither kept nor summarised, {way}", 0, tally.lost, ""),
        ]
    outcomes = [f"{way}: {dict(tally.outcomes.most_common())}" for way, tally in found.items()]
    return Report(
        "three_chunks",
        f"{histories} random histories in {CHUNKS} chunks each",
        [row_of(way, tally) for way, tally in found.items()],
        {"threshold_tokens": POLICY.threshold, "hard_cap_tokens": POLICY.hard_cap_tokens, "seeds": f"0..{histories - 1}"},
        targets,
        [*outcomes, *(fault for tally in found.values() for fault in tally.faults[:20])],
    )


def main(argv: list[str] | None = None) -> None:
    args: argparse.Namespace = parser("Random histories in three chunks each.").parse_args(argv)
    report = run(40, 11) if args.tiny else run(HISTORIES, WITH_ORPHANS)
    finish(report, args.out)
    sys.exit(any(target.met is False for target in report.targets))


if __name__ == "__main__":
    main()
