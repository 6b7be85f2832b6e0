"""Synthetic histories of agents, made from a seed: the same in every process. Needs the standard library alone.

They look like work: a user's request, calls of tools with paths and commands, results with code and logs, now and
then an error or a correction. No word of them comes from anybody's session.
"""

import random
from collections.abc import Iterator
from typing import Any

History = list[dict[str, Any]]

_FOLDERS = (
    "billing",
    "ledger",
    "intake",
    "routing",
    "export",
    "quota",
    "search",
    "archive",
    "notify",
    "session",
)
_FILES = ("parser", "store", "client", "schema", "worker", "retry", "cursor", "format", "limits", "report")
_WORDS = (
    "the value of this row is read before it was written so a second reader sees nothing and goes on with an empty "
    "list until somebody restarts the queue which then hands out everything again in another order than before while "
    "tests that run alone pass because they wait for the flush and those that run together do not"
).split()
_ERRORS = ("KeyError", "TimeoutError", "AssertionError", "ConnectionResetError", "ValueError")


class Author:
    """Writes one history, message by message."""

    def __init__(self, seed: int = 1, result_chars: int = 700) -> None:
        self._random = random.Random(seed)
        self._result_chars = result_chars
        self._turn = 0

    def opening(self) -> dict[str, Any]:
        """The user's first message."""
        wish = f"Please find out why {self._path()} loses rows, and mend it."
        return {"role": "user", "content": f"{wish} Never touch config/production.toml."}

    def turn(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """An assistant's message with a call, and the message with its result."""
        self._turn += 1
        call_id = f"toolu_{self._turn:06d}_{self._random.randrange(16**8):08x}"
        path = self._path()
        name, arguments = self._random.choice(
            (
                ("read", {"path": path}),
                ("run", {"command": f"pytest {path} -k case_{self._turn}"}),
                ("edit", {"path": path, "old": self._prose(8), "new": self._prose(8)}),
            )
        )
        said = {"type": "text", "text": f"Step {self._turn}: {self._prose(18)}"}
        call = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        failed = self._random.random() < 0.06
        result = {"type": "tool_result", "tool_use_id": call_id, "content": self._output(failed)}
        if failed:
            result["is_error"] = True
        return {"role": "assistant", "content": [said, call]}, {"role": "user", "content": [result]}

    def history(self, messages: int) -> History:
        """A history of exactly so many messages; an odd number ends with results."""
        written: History = [self.opening()]
        while len(written) < messages:
            written.extend(self.turn())
        return written[:messages]

    def _output(self, failed: bool) -> str:
        lines = [f"{self._error()} in {self._path()}:{self._random.randrange(1, 900)}"] if failed else []
        size = sum(map(len, lines))
        wanted = int(self._result_chars * self._random.uniform(0.5, 1.5))
        while size < wanted:
            line = f"{self._random.randrange(1, 900):>5}  {self._path()}  {self._prose(9)}"
            lines.append(line)
            size += len(line) + 1
        return "\n".join(lines)

    def _path(self) -> str:
        folder, file = self._random.choice(_FOLDERS), self._random.choice(_FILES)
        return f"src/{folder}/{file}_{self._random.randrange(40)}.py"

    def _prose(self, words: int) -> str:
        return " ".join(self._random.choices(_WORDS, k=words))

    def _error(self) -> str:
        return f"{self._random.choice(_ERRORS)}: {self._prose(6)}"


def turns_of(history: History) -> Iterator[tuple[History, History]]:
    """For each assistant's message: the list that it answered, and the list with it."""
    for at, message in enumerate(history):
        if message["role"] == "assistant":
            yield history[:at], history[: at + 1]
