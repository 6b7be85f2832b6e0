"""Five hundred random histories, each fed in three chunks: is every view valid, compacted where due, and complete?

    python -m benchmarks.three_chunks

The histories are those of fixed seeds; 135 of them hold results whose calls were lost. Each goes through a session
twice: with a scripted model, and with summaries by rules. Every view is judged by the judges of the stand-in API.

Over the threshold a compaction is due, unless a rule of ours has it wait: a tool turn with thinking is open and the
agent's model binds thinking to what is before it, or the money saved does not pay for it. A user message is accounted
for if the view holds it, or if a summary in the view was made from it: a text if its writer was shown the message, one
by rules if it was made of the messages themselves. What was left out by truncation is lost.
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
POLICY = Policy(threshold_tokens=6_000, hard_cap_tokens=24_000, preserve_recent_turns=3, min_span_tokens=200)
_NUMBERED = re.compile(r"\[summary (\d+)\]")


@dataclass
class Notebook:
    """A scripted model: its summaries are short and numbered, so that what each was made of can be followed."""

    prompts: list[str] = field(default_factory=list[str])

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
    over: int = 0
    waiting: int = 0
    no_gain: int = 0
    compacted: int = 0
    said: int = 0
    verbatim: int = 0
    lost: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])

    @property
    def due(self) -> int:
        """Views over the threshold for which no rule said to wait."""
        return self.over - self.waiting - self.no_gain

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
        view = session.request(model=told.model, messages=history)["messages"]
        tally.views += 1
        if faults := faults_of(view, told.dialect):
            tally.invalid += 1
            tally.faults.append(f"{told.dialect}, {length} messages: {faults[0]}")
        _account_for_size(session, history, told.dialect, tally)
        _account_for_words(session, told, length, view, summarize, tally)


def _account_for_size(session: LocalSession, history: Sequence[Any], dialect: str, tally: Tally) -> None:
    """Whether a compaction was due, and made."""
    plan = session.plan
    tally.outcomes[plan.outcome if plan.outcome != "unchanged" else plan.reason] += 1
    if plan.tokens_before < POLICY.threshold:
        return
    tally.over += 1
    if plan.outcome != "unchanged":
        tally.compacted += 1
    elif plan.reason == "open_thinking_turn" and dialect == "anthropic" and in_thinking_turn(history):
        tally.waiting += 1
    elif session.declined.startswith("not worth it"):
        tally.no_gain += 1
    else:
        tally.faults.append(f"due and not compacted: {plan.reason} {session.declined}")


def in_thinking_turn(history: Sequence[Any]) -> bool:
    """Whether a history ends with results of a tool turn, in which the assistant has thought; by a rule of our own."""
    thought = False
    for message in reversed(history):
        content = message["content"] if isinstance(message["content"], list) else [{"type": "text"}]
        kinds = {block["type"] for block in content}
        thought = thought or "thinking" in kinds
        if message["role"] == "user" and kinds - {"tool_result"}:
            return thought and message is not history[-1]
    return thought


def _account_for_words(
    session: LocalSession,
    told: RandomHistory,
    length: int,
    view: Sequence[Any],
    summarize: Notebook | None,
    tally: Tally,
) -> None:
    """Every user message is in the view, or a summary in it was made from it."""
    shown = json.dumps(list(view), ensure_ascii=False)
    behind = summarize.shown_for(shown) if summarize else ""
    by_rules = [
        span for span in session.spans if span.kind == "swapped" and (not summarize or span.reason == "extract")
    ]
    for at, wish in told.wishes_up_to(length):
        tally.said += 1
        words = wish.rstrip(".")
        if words in shown:
            tally.verbatim += 1
        elif words not in behind and not any(span.start <= at < span.end for span in by_rules):
            tally.lost += 1
            tally.faults.append(f"neither kept nor summarised: {wish[:40]}")


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
        "orphans": tally.orphaned,
        "views": tally.views,
        "invalid": tally.invalid,
        "over": tally.over,
        "waiting": tally.waiting,
        "no gain": tally.no_gain,
        "due": tally.due,
        "compacted": tally.compacted,
        "%": round(100 * tally.compacted_share, 1),
        "said": tally.said,
        "verbatim %": round(100 * tally.verbatim / tally.said, 1),
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
        {
            "threshold_tokens": POLICY.threshold,
            "hard_cap_tokens": POLICY.hard_cap_tokens,
            "seeds": f"0..{histories - 1}",
        },
        targets,
        [
            "over: views over the threshold; waiting: of them, for the end of an open tool turn with thinking; no gain:"
            " of them, the money saved would not pay for it; due: the rest",
            "said: user messages, counted for each view; verbatim: word for word in the view; lost: neither there nor"
            " in what a summary was made from",
            *outcomes,
            *(fault for tally in found.values() for fault in tally.faults[:20]),
        ],
    )


def main(argv: list[str] | None = None) -> None:
    args: argparse.Namespace = parser("Random histories in three chunks each.").parse_args(argv)
    report = run(40, 11) if args.tiny else run(HISTORIES, WITH_ORPHANS)
    finish(report, args.out)
    if any(target.met is False for target in report.targets):
        sys.exit(1)


if __name__ == "__main__":
    main()
