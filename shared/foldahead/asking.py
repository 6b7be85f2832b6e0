"""Asking a caller's summariser for one summary: attempts, verification, and one retry with a tighter instruction."""

import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from foldahead.core.messages import Message
from foldahead.core.prompt import build_prompt
from foldahead.core.request import SummaryRequest
from foldahead.core.summarise import nonce_of, with_index
from foldahead.core.tokens import estimate, estimate_text
from foldahead.core.verify import verify_text

Summarize = Callable[[str], str]
"""Takes the whole prompt, gives the summary."""
_NOT_HEALING = frozenset({400, 401, 402, 403, 404, 413, 422})
"""Statuses that a retry does not heal (design section 6)."""
_FIRST_WAIT_S = 1.0
_CANCEL_CHECK_S = 0.05


class Failed(Struct, frozen=True):
    """Why there is no summary."""

    reason: str


class Asking(Struct, frozen=True, kw_only=True):
    """How to ask. With `max_attempts` 1 nothing ever waits."""

    summarize: Summarize
    max_attempts: int = 1
    cancelled: Callable[[], bool] = lambda: False

    def summary_of(self, span: Sequence[Message], request: SummaryRequest, parent: str = "") -> str | Failed:
        """The text for a span (what came since, with a `parent`), verified and with its index.

        A second answer is taken only if it is smaller than the first. Whatever the summariser raises is a failure.
        """
        span_tokens = sum(map(estimate, span)) + estimate_text(parent)
        first_tokens: int | None = None
        reason = ""
        for tighter in (False, True):
            prompt = build_prompt(
                span,
                nonce=nonce_of(request),
                length_target_tokens=request.length_target_tokens,
                tool_result_cap=request.tool_result_cap,
                instructions=request.instructions,
                parent=parent,
                tighter=tighter,
            )
            answer = self._called(prompt.text)
            if isinstance(answer, Failed):
                return answer
            verdict = verify_text(answer, span_tokens)
            tokens = estimate_text(answer)
            if verdict.ok and (first_tokens is None or tokens < first_tokens):
                return with_index(answer, span)
            reason = reason or verdict.reason or "not_smaller"
            first_tokens = tokens
        return Failed(reason)

    def _called(self, prompt: str) -> str | Failed:
        wait_s = _FIRST_WAIT_S
        for attempt in range(1, self.max_attempts + 1):
            if self.cancelled():
                return Failed("cancelled")
            try:
                return self.summarize(prompt)
            except Exception as error:  # noqa: BLE001 - the summariser is the caller's, and the conversation goes on
                heals = getattr(error, "status_code", None) not in _NOT_HEALING
                if not heals or attempt == self.max_attempts:
                    return Failed(f"adapter_error: {type(error).__name__}")
            if not self._slept(wait_s):
                return Failed("cancelled")
            wait_s *= 2
        return Failed("adapter_error")

    def _slept(self, seconds: float) -> bool:
        """Sleep; False as soon as it was cancelled."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.cancelled():
                return False
            time.sleep(_CANCEL_CHECK_S)
        return True
