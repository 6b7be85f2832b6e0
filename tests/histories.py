"""Histories for tests: one-line builders of messages in both dialects, and strategies of whole conversations."""

import re
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DIALECTS = ("anthropic", "openai", "openai-strict")


# -- Anthropic -----------------------------------------------------------------------------------------------------


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def call(call_id: str = "c1", name: str = "read_file", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given or {"path": "a.py"}}


def result(call_id: str = "c1", content: Any = "found", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def thinking(thought: str = "hm", signature: str = "c2ln") -> dict[str, Any]:
    return {"type": "thinking", "thinking": thought, "signature": signature}


def server_call(call_id: str = "s1") -> dict[str, Any]:
    return {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {"query": "q"}}


def server_result(call_id: str = "s1") -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": []}


def picture(data: str = PIXEL) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def document(said: str = "a page") -> dict[str, Any]:
    return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": said}}


def user(*content: Any) -> dict[str, Any]:
    return {
        "role": "user",
        "content": [text(block) if isinstance(block, str) else block for block in content],
    }


def assistant(*content: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [text(block) if isinstance(block, str) else block for block in content],
    }


def system(said: str = "Now answer in French.") -> dict[str, Any]:
    return {"role": "system", "content": said}


# -- OpenAI --------------------------------------------------------------------------------------------------------


def says(said: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": said}


def calls(*call_ids: str, said: str | None = None, arguments: str = '{"path": "a.py"}') -> dict[str, Any]:
    listed = [
        {"id": call_id, "type": "function", "function": {"name": "read_file", "arguments": arguments}}
        for call_id in call_ids
    ]
    return {"role": "assistant", "content": said, "tool_calls": listed}


def answers(call_id: str, content: Any = "found") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


# -- whole conversations -------------------------------------------------------------------------------------------


def rounds(count: int, chars: int = 400, dialect: str = "anthropic") -> list[dict[str, Any]]:
    """A user's wish, then so many tool rounds, then a last word of the user's."""
    history = [user("Please fix it.") if dialect == "anthropic" else says("Please fix it.")]
    for at in range(count):
        body = f"result {at} " + "x" * chars
        if dialect == "anthropic":
            history += [
                assistant(f"Step {at}.", call(f"c{at}", path=f"{at}.py")),
                user(result(f"c{at}", body)),
            ]
        else:
            path = f'{{"path": "{at}.py"}}'
            history += [calls(f"c{at}", said=f"Step {at}.", arguments=path), answers(f"c{at}", body)]
    last = "And the tests?"
    return (
        [*history, assistant("Done."), user(last)]
        if dialect == "anthropic"
        else [*history, says("Done.", "assistant"), says(last)]
    )


class Spoken(Struct, frozen=True):
    """A conversation in one dialect. `requests`: lengths at which the agent would send it."""

    dialect: str
    messages: list[Any]
    requests: list[int]

    def __repr__(self) -> str:
        return f"Spoken({self.dialect}, requests={self.requests},\n" + "".join(
            f"  {at}: {_shortened(message)}\n" for at, message in enumerate(self.messages)
        )


def _shortened(value: Any) -> str:
    return re.sub(r"(lorem ipsum )+", lambda found: f"+{len(found[0])} ", repr(value)).replace(PIXEL, "PIXEL")


_sizes = st.sampled_from([3, 40, 200, 700, 2_500])
_ids = st.one_of(st.none(), st.sampled_from(["bash:0", "bash:1"]))


class _Writer:
    """Writes a conversation message by message. Every text carries a mark of its own."""

    def __init__(self, draw: Any, dialect: str) -> None:
        self.draw = draw
        self.dialect = dialect
        self.anthropic = dialect == "anthropic"
        self.messages: list[Any] = []
        self.requests: list[int] = []
        self.count = 0

    def words(self) -> str:
        self.count += 1
        return f"m{self.count:03d}~ " + "lorem ipsum " * (self.draw(_sizes) // 12)

    def maybe(self, chance: int = 4) -> bool:
        return self.draw(st.integers(1, chance)) == 1

    def user(self) -> None:
        if self.anthropic:
            extra = [picture()] if self.maybe(6) else [document(self.words())] if self.maybe(6) else []
            self.messages.append(user(self.words(), *extra) if self.maybe(2) or extra else says(self.words()))
        else:
            url = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}
            content = [{"type": "text", "text": self.words()}, url] if self.maybe(6) else self.words()
            self.messages.append({"role": "user", "content": content})

    def system(self) -> None:
        self.messages.append(system(self.words()))

    def mark_request(self) -> None:
        self.requests.append(len(self.messages))

    def turn(self) -> None:
        """An assistant's run and all that answers it."""
        wanted = self.draw(st.integers(0, 3))
        ids = [self.draw(_ids) or f"call_{self.count}_{at}" for at in range(wanted)]
        ids = list(dict.fromkeys(ids))
        if self.anthropic:
            self._anthropic_turn(ids)
        else:
            self._openai_turn(ids)

    def _anthropic_turn(self, ids: list[str]) -> None:
        blocks: list[Any] = [thinking(self.words(), f"sig{self.count}")] if self.maybe(3) else []
        self.count += 1
        server = f"srv_{self.count}" if self.maybe(5) else ""
        if not ids or self.maybe(2):
            blocks.append(text(self.words()))
        if server:
            blocks.append(server_call(server))
        where = self.draw(st.sampled_from(["here", "later message", "after the results"])) if server else ""
        if where == "after the results" and not ids:
            where = "later message"
        if where == "here":
            blocks.append(server_result(server))
        tools = [call(each, path=f"{self.count}-{each}") for each in ids]
        if where == "later message":
            self.messages.append(assistant(*blocks))
            blocks = [server_result(server), text(self.words())]
        self.messages.append(assistant(*blocks, *tools))
        if ids:
            self._anthropic_results(ids, only_results=where == "after the results")
            if where == "after the results":
                self.mark_request()
                self.messages.append(assistant(server_result(server), text(self.words())))

    def _anthropic_results(self, ids: list[str], *, only_results: bool) -> None:
        results = [result(each, self._content(), is_error=self.maybe(5)) for each in ids]
        if self.maybe(4):
            self.messages += [user(each) for each in results]
        else:
            more = [text(self.words())] if self.maybe(5) and not only_results else []
            self.messages.append(user(*results, *more))

    def _content(self) -> Any:
        said = self.words()
        return [text(said), picture()] if self.anthropic and self.maybe(6) else said

    def _openai_turn(self, ids: list[str]) -> None:
        message: dict[str, Any] = calls(*ids, said=self.words() if self.maybe(2) else None)
        if not ids:
            message = says(self.words(), "assistant")
        if self.maybe(4):
            message["reasoning_content"] = self.words()
        self.messages.append(message)
        self.messages += [answers(each, self._content()) for each in ids]


@st.composite
def conversations(draw: Any, dialect: str | None = None, most_turns: int = 12) -> Spoken:
    """Conversations that a provider takes at each of their `requests`."""
    writer = _Writer(draw, dialect or draw(st.sampled_from(DIALECTS)))
    if not writer.anthropic and writer.maybe(2):
        writer.system()
    writer.user()
    writer.mark_request()
    for _ in range(draw(st.integers(1, most_turns))):
        before = len(writer.messages)
        writer.turn()
        answered = len(writer.messages) - before > 1 and writer.messages[-1]["role"] in ("user", "tool")
        if not answered or (writer.anthropic and writer.maybe(3)):
            writer.user()
            if writer.maybe(5) and writer.dialect != "openai-strict":
                writer.user()
            if writer.maybe(6):
                writer.system()
        writer.mark_request()
    return Spoken(writer.dialect, writer.messages, writer.requests)


def _intruder(kind: str, dialect: str) -> Any:
    """A message that came between."""
    match kind:
        case "interrupt":
            return says("wait ~")
        case "remark":
            return system("mind ~")
        case _:
            thought = {**says("", "assistant"), "reasoning_content": "hm ~"}
            return assistant(thinking("hm ~")) if dialect == "anthropic" else thought


def _in_another_form(kind: str, messages: list[dict[str, Any]], at: int, dialect: str) -> list[dict[str, Any]]:
    if kind == "form":
        return [*messages[:at], _ill_formed(messages[at]), *messages[at + 1 :]]
    return [*map(_of_another_maker, messages)] if kind == "ids" and dialect == "anthropic" else messages


def _ill_formed(message: dict[str, Any]) -> dict[str, Any]:
    """Arguments as the other dialect has them, results that are null."""
    if message.get("tool_calls"):
        asked = [{**one, "function": {**one["function"], "arguments": {"a": 1}}} for one in message["tool_calls"]]
        return {**message, "tool_calls": asked}
    if message["role"] == "tool":
        return {**message, "content": None}
    changed = {"tool_use": {"input": "a"}, "tool_result": {"content": None}, "text": {"text": "half \ud83d"}}
    content = message["content"]
    blocks = content if isinstance(content, list) else []
    return {**message, "content": [{**one, **changed.get(one["type"], {})} for one in blocks] or content}


def _of_another_maker(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    names = {"tool_use": "id", "tool_result": "tool_use_id"}
    blocks = content if isinstance(content, list) else []
    known = [(one, names.get(one["type"])) for one in blocks]
    return {**message, "content": [{**one, name: f"{one[name]}:0"} if name else one for one, name in known] or content}


@st.composite
def broken_conversations(draw: Any) -> Spoken:
    """Conversations to which something happened on their way: messages lost, doubled, emptied, out of order."""
    spoken = draw(conversations())
    messages = [dict(message) for message in spoken.messages]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(messages) - 1))
        kinds = ["drop", "double", "empty", "swap", "interrupt", "remark", "block", "blank", "thought", "form", "ids"]
        chosen = draw(st.sampled_from(kinds))
        messages = _in_another_form(chosen, messages, at, spoken.dialect)
        match chosen:
            case "drop" if len(messages) > 1:
                del messages[at]
            case "double":
                messages.insert(at, messages[at])
            case "empty":
                messages[at] = {**messages[at], "content": ""}
            case "swap" if at:
                messages[at], messages[at - 1] = messages[at - 1], messages[at]
            case "interrupt" | "remark" | "thought" as kind:
                messages.insert(at, _intruder(kind, spoken.dialect))
            case "block" if messages[at]["content"] and isinstance(messages[at]["content"], list):
                content = list(messages[at]["content"])
                del content[draw(st.integers(0, len(content) - 1))]
                messages[at] = {**messages[at], "content": content}
            case "blank" if spoken.dialect == "anthropic" and isinstance(messages[at]["content"], list):
                messages[at] = {**messages[at], "content": [*messages[at]["content"], text("")]}
            case _:
                pass
        if not messages:
            messages = [says("hello ~")]
    return Spoken(spoken.dialect, messages, [len(messages)])
