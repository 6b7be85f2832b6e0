"""What the model says: the scripted answer, or a short deterministic one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from foldahead_worker.standin.compaction import compaction_block
from foldahead_worker.standin.counting import text_tokens
from foldahead_worker.standin.fault import Json, as_list, as_object
from foldahead_worker.standin.models import Model
from foldahead_worker.standin.prefix import Prefix
from foldahead_worker.standin.script import Scripted
from foldahead_worker.standin.seal import digest
from foldahead_worker.standin.thinking import call_id, signed_content
from foldahead_worker.standin.turns import blocks_of

#: In a system prompt or the last user message this word says: the request asks for a summary.
SUMMARY_MARK: Final = "COMPACTION"

_REFERENCE: Final = re.compile(
    r"(?:[\w.-]+/)+[\w-]+(?:\.\w+)?"  # a path
    r"|\b[A-Z]+-\d+\b"  # a ticket
    r"|\b[\w-]+\.(?:py|md|json|yaml|toml|go|ts)\b"  # a file
)
_MAX_REFERENCES: Final = 12
_SENTENCES: Final = (
    "The user asked for a change and gave the limits that it must keep.",
    "The relevant files were read first and the cause was found before anything was edited.",
    "One approach was tried and given up, because it broke a case that used to work.",
    "The second approach was chosen, since it leaves the public interface as it was.",
    "The checks were run after each edit and their output was compared with the one before.",
    "What is left is to run the whole suite again and to report what changed.",
    "Nothing outside the named files was touched.",
    "The user corrected one name on the way, and the correction holds from there on.",
)


class Answer(msgspec.Struct, frozen=True):
    """The content of a response. `output_tokens` is what it is billed for."""

    content: tuple[Json, ...]
    stop_reason: str
    output_tokens: int
    stop_details: Json | None = None


def last_user_text(request: Json) -> str:
    """Gives the text of the last user message."""
    for at in range(len(messages := as_list(request.get("messages")) or []) - 1, -1, -1):
        message = as_object(messages[at]) or {}
        if message.get("role") == "user":
            return "\n".join(str(block.value.get("text")) for block in blocks_of(message, at) if block.type == "text")
    return ""


def prose(tokens: int, seed: str) -> str:
    """Writes plain sentences of about that many tokens, the same for the same seed."""
    sentences: list[str] = []
    at = int(digest(seed)[:6], 16)
    counted = 0
    while counted < tokens:
        sentence = f"{_SENTENCES[(at + len(sentences)) % len(_SENTENCES)]}"
        if len(sentences) >= len(_SENTENCES):
            sentence = f"Step {len(sentences)}: {sentence[0].lower()}{sentence[1:]}"
        sentences.append(sentence)
        counted += text_tokens(sentence + " ")
    return " ".join(sentences)


def summary(transcript: str, tokens: int) -> str:
    """Writes a plausible summary of a transcript: prose, and the references that it holds."""
    found = list(dict.fromkeys(_REFERENCE.findall(transcript)))[-_MAX_REFERENCES:]
    listed = f" References: {', '.join(found)}." if found else ""
    return prose(max(1, tokens - text_tokens(listed)), transcript) + listed


def message_answer(scripted: Scripted, request: Json, prefix: Prefix, model: Model, summary_tokens: int) -> Answer:
    """Makes the answer to a turn, cut at `max_tokens` as the API cuts it."""
    if scripted.content is not None:
        return _given_answer(scripted, scripted.content, prefix, model)
    limit = int(request.get("max_tokens", 0))
    request_digest = digest(request)
    content = _thoughts(scripted)
    thoughts = len(content)
    text = _text(scripted, request, request_digest, summary_tokens)
    kept = _cut(text, limit)
    if kept is not None:
        content.append({"type": "text", "text": kept})
    content.extend(
        {
            "type": "tool_use",
            "id": call_id(thoughts, request_digest, at),
            "name": call.name,
            "input": call.input,
        }
        for at, call in enumerate(scripted.tool_calls)
    )
    if limit == 0 or scripted.no_content:
        content = []
    implied = "tool_use" if scripted.tool_calls else "end_turn"
    if kept != text or limit == 0:
        implied = "max_tokens"
    stop_reason = scripted.stop_reason or implied
    content = signed_content(content, prefix.answer_head, model.name)
    return Answer(tuple(content), stop_reason, _output_tokens(content), _stop_details(stop_reason))


def _given_answer(scripted: Scripted, blocks: Sequence[Json], prefix: Prefix, model: Model) -> Answer:
    content = signed_content(blocks, prefix.answer_head, model.name)
    calls = any(block.get("type") == "tool_use" for block in content)
    stop_reason = scripted.stop_reason or ("tool_use" if calls else "end_turn")
    return Answer(tuple(content), stop_reason, _output_tokens(content), _stop_details(stop_reason))


def _thoughts(scripted: Scripted) -> list[Json]:
    texts = (scripted.thinking,) if isinstance(scripted.thinking, str) else scripted.thinking
    return [{"type": "thinking", "thinking": text} for text in texts]


def _text(scripted: Scripted, request: Json, request_digest: str, summary_tokens: int) -> str | None:
    if scripted.text is not None:
        return scripted.text
    if scripted.text_tokens is not None:
        return prose(scripted.text_tokens, request_digest)
    if scripted.tool_calls:
        return None
    asked = last_user_text(request)
    if SUMMARY_MARK in asked or SUMMARY_MARK in json.dumps(request.get("system"), ensure_ascii=False):
        return summary(asked, summary_tokens)
    return f"Noted. This is answer {request_digest[:8]}."


def _cut(text: str | None, limit_tokens: int) -> str | None:
    if text is None or text_tokens(text) <= limit_tokens:
        return text
    return text.encode()[: int(limit_tokens * 3.5)].decode(errors="ignore")


def _output_tokens(content: list[Json]) -> int:
    counted = 1  # "output_tokens will be non-zero, even for an empty string response"
    for block in content:
        counted += text_tokens(str(block.get("thinking") or block.get("text") or block.get("content") or ""))
        if block.get("type") == "tool_use":
            counted += text_tokens(json.dumps(block.get("input"), ensure_ascii=False)) + 8
    return counted


def _stop_details(stop_reason: str) -> Json | None:
    if stop_reason != "refusal":
        return None
    return {"type": "refusal", "category": None, "explanation": "The stand-in was told to refuse."}


def compaction_answer(scripted: Scripted, request: Json, prefix: Prefix, model: Model, summary_tokens: int) -> Answer:
    """Makes the answer to a compaction request: one block, or none with the reason why it ended."""
    stop_reason = scripted.stop_reason or "compaction"
    transcript = json.dumps(request.get("messages"), ensure_ascii=False)
    text = scripted.text
    if text is None:
        text = summary(transcript, scripted.text_tokens or summary_tokens)
    kept = _cut(text, int(request.get("max_tokens", 0))) or ""
    if kept != text:
        stop_reason = "max_tokens"
    block = compaction_block(kept, request, prefix, model)
    tokens = _output_tokens([block])
    if scripted.null_content:
        failed: Json = {"type": "compaction", "content": None, "encrypted_content": None}
        return Answer((failed,), stop_reason, tokens)
    if stop_reason != "compaction" or scripted.no_content or not kept:
        ended = "end_turn" if stop_reason == "compaction" else stop_reason
        return Answer((), ended, tokens, _stop_details(ended))
    return Answer((block,), stop_reason, tokens)
