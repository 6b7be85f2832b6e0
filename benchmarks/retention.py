"""What of a span is still there after it was summarised, at budgets of 2 to 25 % of it.

    python -m benchmarks.retention ../shared/sessions

Three ways of summarising: `extract` (by rules); `text` by a stand-in that loses what models were seen to lose (it keeps
a random half of the sentences and no path and no number), with and without the mechanical index that comes with every
real one; and the index alone. Without a folder of recorded sessions it runs over synthetic ones.
"""

import argparse
import json
import random
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cases import Case, cases_of
from benchmarks.planting import PLACES, kept_constraints, newest_wins, plant
from benchmarks.report import Report, Row, Target, finish, parser
from foldahead.core.dialects import get_dialect
from foldahead.core.extract import extract
from foldahead.core.index import mechanical_index
from foldahead.core.ledger import ledger_of
from foldahead.core.messages import Call, Message, Text, text_of
from foldahead.core.models import find_model
from foldahead.core.tokens import estimate, estimate_text
from foldahead.core.worth import worth_of

BUDGETS = (0.02, 0.05, 0.10, 0.20, 0.25)
INDEX_SHARE = 0.03
DEFAULT_FOLDER = Path(__file__).parent.parent.parent / "shared" / "sessions"
AGENT_MODEL, SUMMARY_MODEL = "claude-sonnet-5-5", "anthropic:claude-haiku-5-5"
TAIL_TOKENS = 10_000
WORTH_FROM_TOKENS = 10_000
"""The money of a swap is counted for spans from here on: shorter ones are not compacted at all."""
MOST_DROP, FULL_PRICE_TURNS = 0.10, 2.0

Summarise = Callable[[Sequence[Message], int], str]
_SENTENCE = re.compile(r"[^.!?\n]{20,300}[.!?]")
_PATH = re.compile(r"(?<![\w/.-])(?:[\w.@-]+/)+[\w.@-]+\.[a-z]{1,5}\b")
_ERROR = re.compile(r"\b[A-Z][a-z]\w{2,40}(?:Error|Exception)\b")
_NUMBER = re.compile(r"\d+")


def lossy_text(messages: Sequence[Message], budget_tokens: int) -> str:
    """A stand-in for a model: a random half of what was said, without paths and numbers, within the budget."""
    chance = random.Random(len(messages))
    said = "\n".join(
        text_of(tuple(block for block in message.blocks if isinstance(block, Text))) for message in messages
    )
    kept: list[str] = []
    spent = 0
    for sentence in _SENTENCE.findall(said):
        if chance.random() < 0.5:
            continue
        bare = _NUMBER.sub("some", _PATH.sub("a file", sentence)).strip()
        spent += estimate_text(bare)
        if spent > budget_tokens:
            break
        kept.append(bare)
    return " ".join(kept)


def lossy_with_index(messages: Sequence[Message], budget_tokens: int) -> str:
    """The same as it is stored: with the index, which has its part of the budget."""
    index_tokens = min(budget_tokens, int(sum(map(estimate, messages)) * INDEX_SHARE))
    return lossy_text(messages, budget_tokens - index_tokens) + "\n\n" + mechanical_index(messages, index_tokens)


WAYS: dict[str, Summarise] = {
    "extract": extract,
    "text": lossy_text,
    "text + index": lossy_with_index,
    "index": mechanical_index,
}


def read(case: Case, messages: Sequence[Any]) -> list[Message]:
    """Messages of a case, in core's form."""
    dialect = get_dialect(case.dialect)
    return [dialect.read(message, at) for at, message in enumerate(messages)]


def score(case: Case, summarise: Summarise, share: float) -> dict[str, float]:
    """What a summary of a case keeps: shares from 0 to 1; what the case has none of is left out."""
    span = read(case, case.history[: case.cut])
    span_tokens = sum(map(estimate, span))
    summary = summarise(span, int(span_tokens * share))
    found: dict[str, float | None] = {
        "needed": _kept(case.needed, summary),
        "said": _kept(user_sentences(span), " ".join(summary.split())),
        "paths": _kept(names_in(span, _PATH), summary),
        "errors": _kept(names_in(span, _ERROR), summary),
        "commands": _kept(commands_in(span), summary),
    }
    found |= planted_scores(case, summarise, share)
    if span_tokens >= WORTH_FROM_TOKENS:
        found |= break_even(span_tokens, estimate_text(summary), summarise)
    return {name: value for name, value in found.items() if value is not None}


def planted_scores(case: Case, summarise: Summarise, share: float) -> dict[str, float | None]:
    """Constraints kept, by the place where they were planted; how often the newest of two values wins."""
    boundaries = speaking_places(case)
    scores: dict[str, float | None] = {}
    wins: list[bool] = []
    for place in PLACES:
        span = read(case, plant(case.history[: case.cut], place, boundaries).span)
        summary = summarise(span, int(sum(map(estimate, span)) * share))
        scores[place] = kept_constraints(summary)
        wins.append(newest_wins(summary))
    return scores | {"newest": sum(wins) / len(wins)}


def speaking_places(case: Case) -> list[int]:
    """Where a user may speak: before an assistant's message at which nothing is open, or at the very start."""
    ledger = ledger_of(case.history[: case.cut], get_dialect(case.dialect))
    first = ledger.stable_prefix_end()
    return [at for at in range(first, case.cut) if ledger.cuttable(at)] or [first]


def break_even(span_tokens: int, summary_tokens: int, summarise: Summarise) -> dict[str, float | None]:
    """Turns until the swap has paid for itself: every token at full price, and on a warm prompt cache."""
    by_rules = summarise in (extract, mechanical_index)
    summary_model = "" if by_rules else SUMMARY_MODEL
    warm = worth_of(
        span_tokens=span_tokens,
        summary_tokens=summary_tokens,
        tail_tokens=TAIL_TOKENS,
        turns=40,
        agent_model=AGENT_MODEL,
        summary_model=summary_model,
    )
    agent, writer = find_model(AGENT_MODEL), find_model(SUMMARY_MODEL)
    price, paid = agent and agent.price_at(span_tokens), writer and writer.price_at(span_tokens)
    if price is None or paid is None:
        return {"even_warm": warm.turns}
    once = 0.0 if by_rules else span_tokens * paid.input + summary_tokens * paid.output
    saved = (span_tokens - summary_tokens) * price.input
    return {"even_full": once / saved if saved > 0 else None, "even_warm": warm.turns}


def user_sentences(span: Iterable[Message]) -> list[str]:
    """Sentences that the user wrote."""
    said = (
        block.text for message in span if message.role == "user" for block in message.blocks if isinstance(block, Text)
    )
    return [
        " ".join(found.split())
        for text in said
        if not text.lstrip().startswith("<")
        for found in _SENTENCE.findall(text)
    ]


def names_in(span: Iterable[Message], pattern: "re.Pattern[str]") -> list[str]:
    """Distinct matches in all that was said, called and returned; by a rule of our own, not the extractor's."""
    found: dict[str, None] = {}
    for message in span:
        for block in message.blocks:
            text = str(block.arguments) if isinstance(block, Call) else text_of((block,))
            found |= dict.fromkeys(pattern.findall(text))
    return list(found)


def commands_in(span: Iterable[Message]) -> list[str]:
    """Distinct commands that were run: their first line, as long as a summary would quote it."""
    calls = (block for message in span for block in message.blocks if isinstance(block, Call))
    commands = (_command_of(call.arguments).strip() for call in calls)
    return list(dict.fromkeys(command.splitlines()[0][:60].strip() for command in commands if command))


def _command_of(arguments: Any) -> str:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return ""
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return command if isinstance(command, str) else ""


def _kept(names: Sequence[str], summary: str) -> float | None:
    return sum(name in summary for name in names) / len(names) if names else None


COLUMNS = ("needed", "said", "paths", "commands", "errors", *PLACES, "newest", "even_full", "even_warm")


def row_of(way: str, share: float, cases: Sequence[Case]) -> Row:
    """Means over cases; needed names are counted together, as they are few in each."""
    scores = [score(case, WAYS[way], share) for case in cases]
    row: Row = {"way": way, "%": round(share * 100)}
    for name in COLUMNS:
        values = [one[name] for one in scores if name in one]
        row[name] = round(statistics.mean(values), 3) if values else None
    probes = [(one["needed"], len(case.needed)) for one, case in zip(scores, cases, strict=True) if "needed" in one]
    total = sum(count for _, count in probes)
    row["needed"] = round(sum(kept * count for kept, count in probes) / total, 3) if total else None
    row["drop"] = None if row["needed"] is None else round(1 - float(row["needed"]), 3)
    row["even_warm"] = _warm_turns(scores)
    return row


def run(cases: Sequence[Case], budgets: Sequence[float], source: str) -> Report:
    """Every way at every budget, over all cases; `extract` and the index over each half of them as well."""
    rows = [row_of(way, share, cases) for way in WAYS for share in budgets]
    for number, half in enumerate((cases[::2], cases[1::2]), 1):
        for way in ("extract", "index"):
            rows += [row_of(way, share, half) | {"way": f"{way}, half {number}"} for share in budgets if half]
    return Report(
        "retention",
        f"What a summary keeps, {len(cases)} spans ({source})",
        rows,
        {"budgets": list(budgets), "cases": len(cases), "source": source, "agent_model": AGENT_MODEL},
        targets_of(rows),
        [
            "shares from 0 to 1 of what the span holds; needed: names used in a later call; drop: 1 - needed; said: the"
            " user's sentences; top to spread: planted constraints, all word for word; newest: of two values",
            "even: turns until a swap has paid for itself, at full price and (median) on a warm prompt cache;"
            f" spans of {WORTH_FROM_TOKENS:,} tokens and more, a tail of {TAIL_TOKENS:,}",
        ],
    )


def _warm_turns(scores: Sequence[dict[str, float]]) -> float | None:
    values = [one["even_warm"] for one in scores if "even_warm" in one]
    return round(statistics.median(values), 1) if values else None


def targets_of(rows: Sequence[Row]) -> list[Target]:
    """The aims of the design."""
    by_key = {(row["way"], row["%"]): row for row in rows}

    def of(way: str, percent: int, name: str) -> float | None:
        value = by_key.get((way, percent), {}).get(name)
        return float(value) if isinstance(value, int | float) else None

    wanted = [
        Target(f"constraints at the {place}, extract at 25 %", 1.0, of("extract", 25, place), "", False)
        for place in PLACES
    ]
    return [
        *wanted,
        Target("needed names, index of 2 %", 0.97, of("index", 2, "needed"), "", False),
        Target("needed names, index of 5 %", 1.0, of("index", 5, "needed"), "", False),
        Target("drop, extract at 25 %", MOST_DROP, of("extract", 25, "drop"), ""),
        Target(
            "turns to break even at full price, text at 10 %",
            FULL_PRICE_TURNS,
            of("text + index", 10, "even_full"),
            "turns",
        ),
    ]


def main(argv: list[str] | None = None) -> None:
    options = parser("What of a span is still there after it was summarised.")
    options.add_argument("folder", type=Path, nargs="?", default=DEFAULT_FOLDER, help="recorded sessions, by format")
    options.add_argument("--synthetic", type=int, default=0, help="so many synthetic sessions instead")
    args: argparse.Namespace = options.parse_args(argv)
    synthetic = 2 if args.tiny else args.synthetic
    folder = None if synthetic or not args.folder.is_dir() else args.folder
    cases = cases_of(folder, synthetic or 8)
    finish(run(cases, BUDGETS[1:2] if args.tiny else BUDGETS, "recorded sessions" if folder else "synthetic"), args.out)


if __name__ == "__main__":
    main()
