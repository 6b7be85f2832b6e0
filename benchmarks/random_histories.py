"""Random histories with all that real ones have, made from a seed: the same in every process. Standard library alone.

Parallel calls, tools of the provider's (answered at once or in a later message), thinking, pictures, documents, system
messages midway, runs of one role, ids that are used again in every round, results in one message or apart. Every user
message says something that no other does, so that it can be looked for afterwards.
"""

import json
import random
from dataclasses import dataclass, field
from typing import Any

DIALECTS = ("anthropic", "openai", "openai-strict")
_WORDS = (
    "a row that was read before it was written so the second reader waits for a flush that nobody asked for".split()
)
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_RESULT_CHARS = (60, 600, 2_400, 9_000)
_MODELS = {
    "anthropic": ("claude-haiku-4-5", "claude-sonnet-5-5"),  # the second binds thinking to what was before it
    "openai": ("",),
    "openai-strict": ("",),
}

Messages = list[dict[str, Any]]


@dataclass
class RandomHistory:
    """A history in a dialect. `requests`: lengths at which the agent sends it; `wishes`: what each user message says,
    by its index. `model`: the agent's."""

    dialect: str
    model: str = ""
    messages: Messages = field(default_factory=list)
    requests: list[int] = field(default_factory=list)
    wishes: dict[int, str] = field(default_factory=dict)
    orphaned: bool = False

    def chunks(self, count: int) -> list[int]:
        """The lengths at which it is sent when it is fed in so many chunks of about one size."""
        last = len(self.requests) - 1
        return [self.requests[round(last * part / count)] for part in range(1, count + 1)]

    def wishes_up_to(self, length: int) -> list[tuple[int, str]]:
        """What the user said in the first so many messages, and where."""
        return [(at, wish) for at, wish in self.wishes.items() if at < length]


def random_history(seed: int, *, orphaned: bool = False) -> RandomHistory:
    """The history of a seed. `orphaned`: calls were lost on its way, their results are still there."""
    teller = _Teller(seed)
    teller.tell()
    if orphaned:
        teller.orphan()
    return teller.history


class _Teller:
    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        dialect = DIALECTS[seed % len(DIALECTS)]
        self.history = RandomHistory(dialect, self._chance.choice(_MODELS[dialect]))
        self._anthropic = self.history.dialect == "anthropic"
        self._reuses_ids = self._one_in(4)
        self._wish = 0
        self._ids = 0

    def tell(self) -> None:
        """A conversation that a provider takes at each of its requests."""
        if not self._anthropic and self._one_in(2):
            self._system()
        self._user()
        self._request()
        for _ in range(self._chance.randrange(12, 60)):
            answered = self._turn()
            if not answered or self._one_in(8):
                self._user()
                if self._one_in(6):
                    self._user()
                if self._one_in(8):
                    self._system()
            self._request()

    def orphan(self) -> None:
        """Take out up to three of the messages that call tools; requests and wishes move with what is left."""
        told = self.history
        calling = [at for at, message in enumerate(told.messages) if _calls_tools(message)]
        for at in sorted(self._chance.sample(calling, min(len(calling), self._chance.randint(1, 3))), reverse=True):
            del told.messages[at]
            told.requests = [length - (length > at) for length in told.requests]
            told.wishes = {place - (place > at): wish for place, wish in told.wishes.items()}
        told.orphaned = bool(calling)

    def _one_in(self, chance: int) -> bool:
        return self._chance.randrange(chance) == 0

    def _prose(self, chars: int) -> str:
        return " ".join(self._chance.choices(_WORDS, k=max(1, chars // 5)))

    def _request(self) -> None:
        self.history.requests.append(len(self.history.messages))

    def _add(self, role: str, content: Any, **more: Any) -> None:
        self.history.messages.append({"role": role, "content": content, **more})

    def _system(self) -> None:
        self._add("system", f"Note of the operator: {self._prose(60)}.")

    def _user(self) -> None:
        self._wish += 1
        mark = f"{self._wish:03d}-{self._chance.randrange(16**4):04x}"
        wish = f"Wish {mark}: mend {self._prose(self._chance.randrange(20, 160))}."
        self.history.wishes[len(self.history.messages)] = wish
        if self._one_in(8):
            self._add("user", [{"type": "text", "text": wish}, self._picture()])
        elif self._anthropic and self._one_in(8):
            source = {"type": "text", "media_type": "text/plain", "data": self._prose(400)}
            self._add("user", [{"type": "text", "text": wish}, {"type": "document", "source": source}])
        else:
            self._add("user", wish)

    def _picture(self) -> dict[str, Any]:
        if self._anthropic:
            return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PIXEL}}
        return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + _PIXEL}}

    def _turn(self) -> bool:
        """An assistant's run and its results; whether the last word is the results'."""
        count = self._chance.choice((0, 1, 1, 1, 2, 3))
        ids = [self._id(at) for at in range(count)]
        if self._anthropic:
            self._anthropic_turn(ids)
        else:
            self._openai_turn(ids)
        return bool(ids)

    def _id(self, at: int) -> str:
        self._ids += 1
        return f"bash:{at}" if self._reuses_ids else f"call_{self._ids:04d}"

    def _input(self) -> dict[str, str]:
        return {"path": f"src/{self._chance.choice(_WORDS)}/{self._ids}.py", "note": self._prose(40)}

    def _output(self) -> str:
        return self._prose(self._chance.choice(_RESULT_CHARS))

    def _anthropic_turn(self, ids: list[str]) -> None:
        blocks: list[dict[str, Any]] = []
        if self._one_in(4):
            blocks.append({"type": "thinking", "thinking": self._prose(80), "signature": "c2ln"})
        blocks.append({"type": "text", "text": f"Step: {self._prose(60)}."})
        if self._one_in(8):
            blocks = self._with_server_tool(blocks)
        tools = [{"type": "tool_use", "id": each, "name": "read_file", "input": self._input()} for each in ids]
        self._add("assistant", [*blocks, *tools])
        results = [self._anthropic_result(each) for each in ids]
        if results and self._one_in(5):
            for result in results:
                self._add("user", [result])
        elif results:
            self._add("user", results)

    def _with_server_tool(self, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self._ids += 1
        call_id = f"srv_{self._ids:04d}"
        call = {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {"query": self._prose(20)}}
        found: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": call_id, "content": []}
        if self._one_in(2):
            return [*blocks, call, found]
        self._add("assistant", [*blocks, call])
        return [found, {"type": "text", "text": f"Found: {self._prose(40)}."}]

    def _anthropic_result(self, call_id: str) -> dict[str, Any]:
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": self._output()}
        if self._one_in(10):
            result["content"] = [{"type": "text", "text": self._output()}, self._picture()]
        return result | ({"is_error": True} if self._one_in(8) else {})

    def _openai_turn(self, ids: list[str]) -> None:
        listed = [
            {
                "id": each,
                "type": "function",
                "function": {"name": "read_file", "arguments": json.dumps(self._input())},
            }
            for each in ids
        ]
        said = f"Step: {self._prose(60)}." if not ids or self._one_in(2) else None
        self._add("assistant", said, **({"tool_calls": listed} if listed else {}))
        for each in ids:
            self._add("tool", self._output(), tool_call_id=each)


def _calls_tools(message: dict[str, Any]) -> bool:
    if message["role"] != "assistant":
        return False
    content = message["content"]
    return "tool_calls" in message or (
        isinstance(content, list) and any(block["type"] == "tool_use" for block in content)
    )
