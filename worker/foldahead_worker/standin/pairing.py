"""The judge's look across turns: calls and results, server tools, who opens, where system may stand.

Calls are paired by adjacency: the results of an assistant turn stand at the start of the next user
turn, and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from foldahead_worker.standin.fault import Fault, Tolerance
from foldahead_worker.standin.schema import SERVER_CALLS, SERVER_RESULTS
from foldahead_worker.standin.turns import Block, Turn


def pairing_faults(turns: Sequence[Turn], tolerance: Tolerance) -> list[Fault]:
    """Judges the order of turns and the pairing of calls with results."""
    found = _opening_faults(turns)
    found.extend(_system_faults(turns))
    spoken = [turn for turn in turns if turn.role != "system"]
    for at, turn in enumerate(spoken):
        before = spoken[at - 1] if at else None
        if turn.role == "user":
            found.extend(_result_faults(turn, before, tolerance))
        if turn.role == "assistant" and (at + 1 < len(spoken) or not tolerance.open_tail):
            after = spoken[at + 1] if at + 1 < len(spoken) else None
            found.extend(_call_faults(turn, after))
    if not tolerance.reused_ids:
        found.extend(_reused_ids(spoken))
    found.extend(_server_tool_faults(spoken))
    return found


def _opening_faults(turns: Sequence[Turn]) -> list[Fault]:
    if not turns:
        return []
    first = turns[0]
    opens = first.role == "user" or (first.blocks and first.blocks[0].type == "compaction")
    if opens:
        return []
    return [Fault(f"messages[{first.start}].role", f"the first message is the user's, not {first.role!r}")]


def _system_faults(turns: Sequence[Turn]) -> list[Fault]:
    """The placement rules of mid-conversation system messages."""
    found: list[Fault] = []
    for at, turn in enumerate(turns):
        if turn.role != "system" or at == 0:
            continue
        before, path = turns[at - 1], f"messages[{turn.start}].role"
        server_end = bool(before.blocks) and before.blocks[-1].type in SERVER_CALLS | SERVER_RESULTS
        if before.role != "user" and not (before.role == "assistant" and server_end):
            found.append(Fault(path, "role 'system' must follow a 'user' message"))
        if at + 1 < len(turns) and turns[at + 1].role != "assistant":
            found.append(Fault(path, "role 'system' must precede an 'assistant' message or end the array"))
    return found


def _ids(blocks: Sequence[Block], kind: str, field: str) -> Counter[str]:
    return Counter(str(block.value.get(field)) for block in blocks if block.type == kind)


def _call_faults(turn: Turn, after: Turn | None) -> list[Fault]:
    answered = _ids(after.blocks if after else (), "tool_result", "tool_use_id")
    found: list[Fault] = []
    for block in turn.blocks:
        if block.type == "tool_use":
            call_id = str(block.value.get("id"))
            if not answered[call_id]:
                message = f"tool_use {call_id!r} has no tool_result in the message after"
                found.append(Fault(block.path, message))
            answered[call_id] -= 1
    return found


def _result_faults(turn: Turn, before: Turn | None, tolerance: Tolerance) -> list[Fault]:
    calls = before.blocks if before is not None and before.role == "assistant" else ()
    open_calls = _ids(calls, "tool_use", "id")
    seen: Counter[str] = Counter()
    found: list[Fault] = []
    behind = False
    for block in turn.blocks:
        if block.type != "tool_result":
            behind = True
            continue
        call_id = str(block.value.get("tool_use_id"))
        seen[call_id] += 1
        if not open_calls[call_id]:
            message = f"tool_result for {call_id!r} has no tool_use in the message before"
            found.append(Fault(block.path, message))
        elif seen[call_id] > (open_calls[call_id] if tolerance.reused_ids else 1):
            found.append(Fault(block.path, f"a second tool_result for {call_id!r}"))
        elif behind:
            found.append(Fault(block.path, f"tool_result for {call_id!r} stands behind other content"))
    return found


def _reused_ids(turns: Sequence[Turn]) -> list[Fault]:
    """Call ids must be unique, over the whole conversation."""
    first: dict[str, str] = {}
    found: list[Fault] = []
    for block in (block for turn in turns for block in turn.blocks):
        if block.type != "tool_use" and block.type not in SERVER_CALLS:
            continue
        call_id = str(block.value.get("id"))
        if call_id in first:
            message = f"tool_use ids must be unique: {call_id!r} is also at {first[call_id]}"
            found.append(Fault(f"{block.path}.id", message))
        first.setdefault(call_id, block.path)
    return found


def _server_tool_faults(turns: Sequence[Turn]) -> list[Fault]:
    """A server tool's result follows its call in the same turn, or in a later one of the same run.

    A run goes on over user turns that hold tool results alone (`pause_turn`, tools called from code).
    """
    found: list[Fault] = []
    pending: dict[str, Block] = {}
    for turn in turns:
        if turn.role == "user" and any(block.type != "tool_result" for block in turn.blocks):
            found.extend(_unfinished(pending))
            pending = {}
        for block in turn.blocks:
            if block.type in SERVER_CALLS:
                pending[str(block.value.get("id"))] = block
            elif block.type in SERVER_RESULTS:
                call_id = str(block.value.get("tool_use_id"))
                if pending.pop(call_id, None) is None:
                    found.append(Fault(block.path, f"{block.type} for {call_id!r} has no call before it"))
    return found


def _unfinished(pending: dict[str, Block]) -> list[Fault]:
    return [
        Fault(block.path, f"{block.type} {call_id!r} was found without its result")
        for call_id, block in pending.items()
    ]
