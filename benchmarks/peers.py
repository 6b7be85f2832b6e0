"""The same turns through other people's compaction, in an interpreter that has them. Prints one JSON.

Called by `turn_cost` with the interpreter that `--peers` names; needs `benchmarks/requirements.txt` there. Each peer
gets the history that we get, in its own message classes, and a summariser that answers at once.
"""

import argparse
import copy
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

from benchmarks.histories import Author, History

Action = Callable[[], object]
SUMMARY = "The user wants lost rows found and mended. The suite passes but for case 41."
NEVER = 10**9


def median_ms(prepare: Callable[[], Action], repeats: int) -> float:
    """Median time of an action, each time from a fresh start."""
    found: list[float] = []
    for _ in range(repeats):
        action = prepare()
        begun = time.perf_counter_ns()
        action()
        found.append((time.perf_counter_ns() - begun) / 1e6)
    return statistics.median(found)


def langchain_messages(history: History) -> list[Any]:
    """The history in LangChain's classes, with ids, as a graph's state holds it."""
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    made: list[Any] = []
    for at, message in enumerate(history):
        content = message["content"]
        if isinstance(content, str):
            made.append(HumanMessage(content, id=str(at)))
        elif message["role"] == "assistant":
            calls = [
                {"name": block["name"], "args": block["input"], "id": block["id"], "type": "tool_call"}
                for block in content
                if block["type"] == "tool_use"
            ]
            made.append(AIMessage(content[0]["text"], tool_calls=calls, id=str(at)))
        else:
            made += [
                ToolMessage(block["content"], tool_call_id=block["tool_use_id"], id=f"{at}.{place}")
                for place, block in enumerate(content)
            ]
    return made


def langchain(history: History, threshold: int) -> Callable[[], Action]:
    """LangChain's SummarizationMiddleware, called as its agent calls it before each model call."""
    from langchain.agents.middleware import SummarizationMiddleware
    from langchain_core.language_models import FakeListChatModel

    messages = langchain_messages(history)

    def summarize(messages: list[Any]) -> str:  # noqa: ARG001
        return SUMMARY

    middleware = SummarizationMiddleware(
        model=FakeListChatModel(responses=[SUMMARY]), trigger=("tokens", threshold), summarizer=summarize
    )
    state: Any = {"messages": messages}
    runtime: Any = None
    return lambda: lambda: middleware.before_model(state, runtime)


def langmem(history: History, threshold: int) -> Callable[[], Action]:
    """langmem's summarize_messages."""
    from langchain_core.language_models import FakeListChatModel
    from langmem.short_term import summarize_messages

    messages = langchain_messages(history)
    model = FakeListChatModel(responses=[SUMMARY])

    def call() -> object:
        return summarize_messages(messages, running_summary=None, model=model, max_tokens=threshold)

    return lambda: call


def cliffcompaction(history: History, threshold: int) -> Callable[[], Action]:
    """CliffCompaction's engine, as its proxy calls it for each request: it makes its summaries by rules."""
    from cliffcompaction.config import Config
    from cliffcompaction.dialects.anthropic import DIALECT
    from cliffcompaction.engine import Engine

    body = {"model": "claude-haiku-5-5", "max_tokens": 4096, "messages": history}

    def prepare() -> Action:
        engine = Engine(Config(threshold_tokens=threshold))
        return lambda: engine.prepare(body, DIALECT)

    return prepare


def compacted(result: Any) -> bool:
    """Whether what a peer gave back is a compaction."""
    if isinstance(result, dict):
        return len(result["messages"]) > 1
    return bool(getattr(result, "running_summary", None) or getattr(result, "compacted", False))


PEERS = {
    "LangChain SummarizationMiddleware": ("langchain", langchain),
    "langmem summarize_messages": ("langmem", langmem),
    "CliffCompaction": ("cliffcompaction", cliffcompaction),
}


def measure(sizes: list[int], repeats: int) -> dict[str, Any]:
    """Check and compacting turn of each peer that is installed here, at each size."""
    installed = {name: peer for name, peer in PEERS.items() if importlib.util.find_spec(peer[0])}
    rows: list[dict[str, Any]] = []
    for size in sizes:
        history = Author().history(size)
        tokens = sum(len(str(message["content"])) for message in history) // 4
        for name, (_, peer) in installed.items():
            few = min(repeats, max(3, repeats * 100 // size))
            check = median_ms(peer(copy.deepcopy(history), NEVER), few)
            compacting = peer(copy.deepcopy(history), tokens // 2)
            if not compacted(compacting()()):
                raise RuntimeError(f"{name} did not compact {size} messages")
            swap = median_ms(compacting, min(3, repeats))
            rows.append({"who": name, "messages": size, "check_ms": check, "swap_ms": swap})
    return {
        "rows": rows,
        "missing": [name for name in PEERS if name not in installed],
        "versions": {package: metadata.version(package) for package, _ in installed.values()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    json.dump(measure([int(size) for size in args.sizes.split(",")], args.repeats), sys.stdout)


if __name__ == "__main__":
    main()
