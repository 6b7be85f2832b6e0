"""The README's agent, turn by turn: run by test_readme_loop.py in one process, and in a new one for each turn."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import anthropic
from msgspec import Struct

from foldahead import Foldahead, Policy, Session

MODEL = "claude-sonnet-5-5"
SYSTEM = "You mend a repository. Call tools; explain in one sentence what you do."
TOOLS: Any = [
    {
        "name": "run",
        "description": "Runs a command and gives its output.",
        "input_schema": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
    {"name": "read_file", "description": "Reads a file.", "input_schema": {"type": "object"}},
]
TASK = "Make the importer take CSV files with a BOM. Never touch config/prod.yaml; the ticket is IMP-4711."
POLICY = Policy(threshold_tokens=30_000)


class Sent(Struct, frozen=True, kw_only=True):
    """One turn as the agent saw it."""

    messages: int
    compacted: bool
    tokens_before: int
    """Pending tokens of the view before anything was done about them."""


def client_of(api_url: str) -> anthropic.Anthropic:
    """A client of the stand-in. Plain HTTP: without certificates, which take a tenth of a second to load."""
    transport = anthropic.DefaultHttpxClient(verify=False)
    return anthropic.Anthropic(base_url=api_url, api_key="test", max_retries=0, http_client=transport)


def take_turn(session: Session, client: anthropic.Anthropic, history: list[Any]) -> Sent:
    """The README's loop body, and the results of what the model called."""
    request = session.request(model=MODEL, max_tokens=4096, system=SYSTEM, tools=TOOLS, messages=history)
    sent = Sent(
        messages=len(request["messages"]),
        compacted="<COMPACTION_SUMMARY" in str(request["messages"][:2]),
        tokens_before=session.plan.tokens_before,
    )
    reply = client.beta.messages.create(**request)
    history.append({"role": "assistant", "content": reply.content})
    session.publish(history, usage=reply.usage)
    results = [result_of(block, len(history)) for block in reply.content if block.type == "tool_use"]
    history.append({"role": "user", "content": results or f"Go on; that was message {len(history)}."})
    return sent


def result_of(call: Any, at: int) -> dict[str, Any]:
    """What a tool gave back: some KB of output, the same for the same call at the same place."""
    lines = [
        f"{call.name} {at}.{line}: src/importer/part_{at}_{line}.py ok in {line * 7 % 90} ms" for line in range(60)
    ]
    failed = call.name == "run" and at % 14 == 1
    if failed:
        lines.append(f"FAILED tests/test_bom_{at}.py::test_reads - UnicodeDecodeError: 'utf-8' codec, byte 0xef")
    return {"type": "tool_result", "tool_use_id": call.id, "content": "\n".join(lines), "is_error": failed}


def take_turn_in_a_new_process(redis_url: str, api_url: str, database: Path, name: str, workspace: str) -> Sent:
    """One turn of a web worker: the history comes from a database and goes back there; nothing else is kept."""
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT message FROM history ORDER BY at").fetchall()
    history: list[Any] = [json.loads(message) for (message,) in rows]
    fold = Foldahead(redis_url)
    session = fold.session(name, workspace=workspace, dialect="anthropic", policy=POLICY)
    session.resume(history, timeout=5)
    with client_of(api_url) as client:
        sent = take_turn(session, client, history)
    assert session.flush(5)
    fold.close()
    with sqlite3.connect(database) as connection:
        new = [(at, json.dumps(stored(message))) for at, message in enumerate(history) if at >= len(rows)]
        connection.executemany("INSERT INTO history VALUES (?, ?)", new)
    return sent


def stored(message: dict[str, Any]) -> dict[str, Any]:
    """A message as a database keeps it: SDK objects as what the API had sent."""
    content = message["content"]
    if isinstance(content, str):
        return message
    return {**message, "content": [part if isinstance(part, dict) else part.to_dict() for part in content]}
