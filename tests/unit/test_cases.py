"""The cases: shapes on which other systems broke, each with what must hold. They live beside the repository."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from foldahead.core.dialects import get_dialect
from foldahead.core.messages import Thinking
from foldahead.core.policy import policy_from
from foldahead.core.replay import replay
from foldahead.oneshot import Compaction, compact
from tests.judging import faults_of

CASES = Path(__file__).parents[2].parent / "shared" / "cases"
FORCED_UP_TO = 200
"""A case with a threshold of this or less is about shape, not about when."""


def load(path: Path) -> dict[str, Any]:
    case = json.loads(path.read_text())
    text = json.dumps(case["messages"])
    for at, parts in enumerate(case["expect"].get("secrets", [])):
        text = text.replace(f"@SECRET{at}@", "".join(parts))
    case["messages"] = json.loads(text)
    return case


def run(case: dict[str, Any], messages: list[Any]) -> Compaction:
    policy = policy_from(case["policy"])
    answer = case.get("summary")
    return compact(
        messages,
        policy,
        case["format"],
        None if answer is None else lambda prompt: answer,
        force=policy.threshold <= FORCED_UP_TO,
    )


def judge(case: dict[str, Any], messages: list[Any]) -> list[str]:
    expect = case["expect"]
    return faults_of(
        messages,
        case["format"],
        open_tail=expect.get("allow_open_tail", False),
        reused_ids=expect.get("allow_reused_ids", False),
        unknown_blocks=True,
    )


def thinking_in(case: dict[str, Any], messages: list[Any]) -> int:
    dialect = get_dialect(case["format"])
    read = [dialect.read(message, at) for at, message in enumerate(messages)]
    return sum(isinstance(block, Thinking) for message in read for block in message.blocks)


def kept(case: dict[str, Any], result: Compaction, index: int) -> bool:
    return case["messages"][index] in result.messages


def broken_promises(case: dict[str, Any], result: Compaction, seconds: float) -> list[str]:
    """The keys of `expect` that do not hold, as the cases' README defines them."""
    expect, messages, view = case["expect"], case["messages"], result.messages
    text = json.dumps(view, ensure_ascii=False)
    put_in = json.dumps([record.message for record in result.records], ensure_ascii=False) + result.summary
    holds: dict[str, bool] = {}
    before, after = judge(case, messages), judge(case, view)
    holds["valid"] = not after or (result.outcome == "unchanged" and len(after) <= len(before))
    holds["outcome"] = result.outcome in expect["outcome"]
    holds["reason"] = result.outcome != "unchanged" or result.reason == expect.get("reason", result.reason)
    places = [view.index(messages[at]) for at in expect.get("keep_verbatim", []) if kept(case, result, at)]
    holds["keep_verbatim"] = len(places) == len(expect.get("keep_verbatim", [])) and places == sorted(places)
    groups = [{kept(case, result, at) for at in group} for group in expect.get("pairs_whole", [])]
    holds["pairs_whole"] = all(len(group) == 1 for group in groups)
    holds["must_mention"] = all(mention in text for mention in expect.get("must_mention", []))
    holds["secrets"] = not any("".join(parts) in put_in for parts in expect.get("secrets", []))
    holds["reports_repairs"] = len(result.repairs) == expect.get("reports_repairs", len(result.repairs))
    most = (1 - expect.get("min_reduction", -1)) * result.tokens_before
    holds["min_reduction"] = result.tokens_after <= most
    holds["tokens_before_at_least"] = result.tokens_before >= expect.get("tokens_before_at_least", 0)
    holds["tokens_before_at_most"] = result.tokens_before <= expect.get("tokens_before_at_most", 10**9)
    holds["same_length"] = not expect.get("same_length") or len(view) == len(messages)
    holds["stubbed"] = set(expect.get("stubbed", [])) <= set(result.elided)
    holds["max_cache_control"] = text.count('"cache_control"') <= expect.get("max_cache_control", 10**9)
    holds["max_output_bytes"] = len(text.encode("utf-8", "surrogatepass")) <= expect.get("max_output_bytes", 10**9)
    holds["summary_max_chars"] = len(result.summary) <= expect.get("summary_max_chars", 10**9)
    holds["max_seconds"] = seconds <= expect.get("max_seconds", 60)
    holds["exhausted"] = result.exhausted == expect.get("exhausted", result.exhausted)
    if expect.get("thinking") == "all-or-none":
        tail = messages[max(result.cut_index, 0) :]
        holds["thinking"] = thinking_in(case, view) in (0, thinking_in(case, tail))
    if expect.get("wrapper_closed_once"):
        holds["wrapper_closed_once"] = result.summary.count("</COMPACTION_SUMMARY>") == 1
    if expect.get("settles"):
        again = run(case, view)
        holds["settles"] = again.outcome == "unchanged" or again.tokens_after < again.tokens_before
    holds["replays"] = json.dumps(replay(messages, result.records, get_dialect(case["format"]))) == json.dumps(view)
    return [key for key, held in holds.items() if not held]


@pytest.mark.skipif(not CASES.is_dir(), reason="the cases are not beside this repository")
@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_a_reported_shape_is_compacted_as_it_should_be(path: Path) -> None:
    case = load(path)
    untouched = json.dumps(case["messages"])
    started = time.monotonic()
    result = run(case, case["messages"])
    assert broken_promises(case, result, time.monotonic() - started) == []
    assert json.dumps(case["messages"]) == untouched
