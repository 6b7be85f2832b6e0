"""Branches of a Claude Code conversation that were abandoned: the user went back and wrote another prompt.

A log is a tree by `parentUuid`, but not a plain one: parallel calls hang beside each other, and so do their
results, and all of them were sent. Only where a fork goes on with a prompt on both sides did the user go
back; what hangs on the prompt that did not lead on was in no later request.
"""

from __future__ import annotations

from collections.abc import Iterator

from foldahead_worker.importers.claude_code_line import LogLine
from foldahead_worker.importers.notes import Notes


def without_abandoned(lines: list[LogLine], notes: Notes) -> list[LogLine]:
    """The lines of one conversation without abandoned branches; what goes is noted."""
    before = _before(lines)
    last = next((index for index in reversed(range(len(lines))) if lines[index].is_message), -1)
    trunk = _trunk(before, last)
    branch_of = _branches(before, trunk)
    abandoned = {root for root, members in branch_of.items() if _went_back(lines, before[root], members, trunk)}
    gone = {index for root in abandoned for index in branch_of[root]}
    for root in sorted(abandoned):
        count = sum(1 for index in branch_of[root] if lines[index].is_message)
        notes.add(f"line {lines[root].number}: {count} messages of a branch that the user went back on, passed over")
    return [line for index, line in enumerate(lines) if index not in gone]


def _before(lines: list[LogLine]) -> list[int]:
    """For each line the index of the one it hangs on; if the file does not say, the one before it (or -1)."""
    place: dict[str, int] = {}
    before: list[int] = []
    for index, line in enumerate(lines):
        before.append(place.get(line.parent or "", index - 1))
        if line.uuid:
            place.setdefault(line.uuid, index)
    return before


def _trunk(before: list[int], last: int) -> set[int]:
    trunk: set[int] = set()
    while last >= 0:
        trunk.add(last)
        last = before[last]
    return trunk


def _branches(before: list[int], trunk: set[int]) -> dict[int, list[int]]:
    """Lines off the trunk, by the first line of their branch; a line hangs on an earlier one."""
    root_of: dict[int, int] = {}
    members: dict[int, list[int]] = {}
    for index, above in enumerate(before):
        if index in trunk:
            continue
        root = root_of[index] = root_of.get(above, index)
        members.setdefault(root, []).append(index)
    return members


def _went_back(lines: list[LogLine], fork: int, branch: list[int], trunk: set[int]) -> bool:
    """Does this fork go on with the user's words on both sides?"""
    leading_on = (index for index in range(fork + 1, len(lines)) if index in trunk)
    return _starts_with_prompt(lines, iter(branch)) and _starts_with_prompt(lines, leading_on)


def _starts_with_prompt(lines: list[LogLine], indices: Iterator[int]) -> bool:
    first = next((lines[at] for at in indices if lines[at].is_message and not lines[at].is_meta), None)
    return first is not None and first.is_prompt
