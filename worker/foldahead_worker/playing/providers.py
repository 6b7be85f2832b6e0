"""Who answers a played agent: the recording alone, or somebody who may refuse what was sent."""

import http.client
import json
from collections.abc import Sequence
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from msgspec import Struct

from foldahead.errors import FoldaheadError
from foldahead_worker.playing.frame import Frame
from foldahead_worker.playing.judging import judged
from foldahead_worker.standin.service import OWN_ANSWER

AGENT_KEY = "stand-in-agent"
"""The made-up key of played agents; their summaries are asked for with another."""
_VERSION = "2026-10-21"
_TIMEOUT_S = 120.0

Messages = list[dict[str, Any]]


class Refused(Exception):
    """A request was refused; the text is what the provider said."""


class ProviderFailed(FoldaheadError):
    """The provider did not answer as one does."""


class Reply(Struct, frozen=True):
    """What an agent appends to its history, and the usage that came with it.

    `recorded_faults`: what is wrong with the request, and as wrong with the recording.
    """

    messages: Messages
    usage: dict[str, Any] | None = None
    recorded_faults: tuple[str, ...] = ()


class Provider(Protocol):
    """Answers requests with what the recording has."""

    asks: bool
    """Whether anybody looks at the requests."""

    def ask(self, request: dict[str, Any], history: Sequence[Any], recorded: Messages) -> Reply:
        """Answer a request that stands for a history with a recorded answer. Raises Refused."""
        ...

    def close(self) -> None:
        """Give the connection back."""
        ...


class Recording:
    """Says what was recorded, whatever is sent."""

    asks = False

    def ask(self, request: dict[str, Any], history: Sequence[Any], recorded: Messages) -> Reply:  # noqa: ARG002
        """The recorded answer."""
        return Reply(recorded)

    def close(self) -> None:
        """Nothing to do."""


class Rules:
    """Judges by the rules of a provider that has no stand-in, and then says what was recorded."""

    asks = True

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def ask(self, request: dict[str, Any], history: Sequence[Any], recorded: Messages) -> Reply:
        """The recorded answer. Raises Refused for a fault that the history does not have."""
        ours, theirs = judged(self._frame, request, history)
        if ours:
            raise Refused("; ".join(ours))
        return Reply(recorded, None, tuple(theirs))

    def close(self) -> None:
        """Nothing to do."""


class StandIn:
    """The stand-in of the Claude API, over HTTP. It gives the recorded answer back with thinking of its own making:
    signed for what was sent, so that it is bound to that and to nothing that was recorded.
    """

    asks = True

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        # Not the SDK: importing it takes longer than a turn does here, and each turn may be a process.
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=_TIMEOUT_S)

    def ask(self, request: dict[str, Any], history: Sequence[Any], recorded: Messages) -> Reply:  # noqa: ARG002
        """The answer, as it came back. Raises Refused, ProviderFailed."""
        body = {name: value for name, value in request.items() if name != "betas"}
        body[OWN_ANSWER] = {"content": [block for message in recorded for block in _blocks(message)]}
        status, answer = self._post(json.dumps(body).encode(), request.get("betas") or ())
        if status == http.client.OK:
            return Reply(_as_recorded(recorded, answer["content"]), answer["usage"])
        said = str(answer["error"]["message"])
        if 400 <= status < 500:
            raise Refused(said)
        raise ProviderFailed(f"the stand-in answered with status {status}: {said}")

    def _post(self, body: bytes, betas: Sequence[str]) -> tuple[int, dict[str, Any]]:
        headers = {"x-api-key": AGENT_KEY, "anthropic-version": _VERSION, "content-type": "application/json"}
        if betas:
            headers["anthropic-beta"] = ",".join(betas)
        try:
            self._connection.request("POST", "/v1/messages", body, headers)
            response = self._connection.getresponse()
            return response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()
            raise ProviderFailed(f"the stand-in did not answer: {type(error).__name__}") from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def provider_for(frame: Frame, standin_url: str) -> Provider:
    """Who answers an agent in a run with a stand-in at this URL, or without one."""
    if not standin_url:
        return Recording()
    return StandIn(standin_url) if frame.dialect == "anthropic" else Rules(frame)


def _blocks(message: dict[str, Any]) -> list[Any]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return cast("list[Any]", content or [])


def _as_recorded(recorded: Messages, content: list[Any]) -> Messages:
    """One answer's content as the messages in which it was recorded; a text that was no list stays none."""
    messages: Messages = []
    at = 0
    for message in recorded:
        end = at + len(_blocks(message))
        is_text = not isinstance(message.get("content"), list)
        messages.append(message if is_text else {**message, "content": content[at:end]})
        at = end
    return messages
