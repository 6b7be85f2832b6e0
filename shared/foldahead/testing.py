"""For tests of agents, theirs and ours: a session with no Redis, no thread and no clock. The same core decides.

session = LocalSession(Policy(threshold_tokens=2_000), "anthropic", summarize=ScriptedSummarizer("They talked."))
view = session.view(history)
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from foldahead.asking import Asking, Failed
from foldahead.core.conversation import Conversation, Moment
from foldahead.core.decide import Means, Start, decide
from foldahead.core.dialects import get_dialect
from foldahead.core.envelope import request_with
from foldahead.core.extract import extract
from foldahead.core.plan import Plan
from foldahead.core.policy import Policy
from foldahead.core.prompt import PROMPT_VERSION
from foldahead.core.record import Record
from foldahead.core.request import SummaryRequest
from foldahead.core.standing import Ready
from foldahead.core.summarise import ready_of
from foldahead.core.weigh import Counter

__all__ = ["LocalSession", "ScriptedSummarizer"]


class ScriptedSummarizer:
    """A summariser that answers with given texts in turn, the last one for ever; an exception among them is raised.

    `prompts` holds what it was asked.
    """

    def __init__(self, *answers: str | Exception) -> None:
        if not answers:
            raise ValueError("ScriptedSummarizer: expected at least one answer")
        self._answers = list(answers)
        self.prompts: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        answer = self._answers[min(len(self.prompts), len(self._answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


class _Pending(Struct, frozen=True):
    ready: Ready
    after_turn: int


class LocalSession:
    """`view`, `request` and `publish` like those of a real session.

    `summarize` gets the whole prompt and gives the text (None: summaries are made by rules). What is asked for at one
    publish is ready `delay_turns` publishes later; 0: at once. `failures` says why there was no summary; it is asked
    for again after one publish, then two, then four ... `declined` says why the last publish asked for none.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        dialect: str = "anthropic",
        summarize: Callable[[str], str] | None = None,
        delay_turns: int = 0,
    ) -> None:
        self._conversation = Conversation(get_dialect(dialect), policy or Policy())
        self._summarize = summarize
        self._delay_turns = delay_turns
        self._turn = 0
        self._pending: list[_Pending] = []
        self._texts: dict[str, str] = {}
        self._not_before_turn = 0
        self.failures: list[str] = []
        self.declined = ""

    @property
    def plan(self) -> Plan:
        """What the last view was and why."""
        return self._conversation.plan

    @property
    def records(self) -> Sequence[Record]:
        """Every difference between history and view so far."""
        return tuple(self._conversation.records)

    @property
    def last_record(self) -> Record | None:
        """The record of the span that the view shows a summary for; None while there is none."""
        spans = self._conversation.active.spans
        return spans[-1] if spans else None

    @property
    def spans(self) -> Sequence[Record]:
        """The records of what stands for a span in the view, oldest first."""
        return self._conversation.active.spans

    def view(self, history: list[Any], target_tokens: int | None = None, counter: Counter | None = None) -> list[Any]:
        """What to send in place of the history."""
        return self._conversation.view(history, Moment(target_tokens=target_tokens, counter=counter))

    def request(self, **kwargs: Any) -> dict[str, Any]:
        """A whole request with the view in place of `messages`."""
        conversation = self._conversation
        conversation.model = str(kwargs.get("model") or "")
        return request_with(self.view(kwargs["messages"]), kwargs, conversation.dialect, conversation.policy)

    def publish(self, history: list[Any], usage: Any = None, turn_id: str | None = None) -> None:
        """One turn is over: summaries that are wanted are asked for, those asked for long enough ago are ready."""
        conversation = self._conversation
        before = conversation.total_tokens()
        conversation.observe(history)
        if usage is not None:
            conversation.note_usage(usage)
        conversation.growth.note(conversation.total_tokens() - before, 1.0)
        self._turn += 1
        standing = conversation.standing(turn_id)
        rested = self._turn >= self._not_before_turn
        self.declined = ""
        if rested and not self._pending and conversation.wants_work(standing):
            decision = decide(standing, "local", self._means())
            if isinstance(decision, Start):
                self._ask(history, decision.request)
            else:
                self.declined = decision.reason
        for pending in list(self._pending):
            if pending.after_turn <= self._turn:
                self._pending.remove(pending)
                conversation.add_ready(pending.ready)

    def pin(self, message: Any) -> None:
        """Keep a message in every view."""
        self._conversation.pin(message)

    def rejected(self, error: Exception) -> None:
        """The provider refused the last view: the history is given back."""
        self._conversation.reject(error=error)

    def _means(self) -> Means:
        by_model = self._summarize is not None
        return Means(
            kind="text" if by_model else "extract",
            model=self._conversation.policy.model if by_model else "",
            prompt_version=PROMPT_VERSION,
            summary_s=float(self._delay_turns),
        )

    def _ask(self, history: list[Any], request: SummaryRequest) -> None:
        first = request.parent_end if request.parent else request.start
        dialect = self._conversation.dialect
        span = [dialect.read(history[at], at) for at in range(first, request.end)]
        parent = self._texts.get(request.parent, "")
        if self._summarize is None:
            text = extract(span, request.length_target_tokens, parent)
        else:
            text = Asking(summarize=self._summarize).summary_of(span, request, parent)
        if isinstance(text, Failed):
            self.failures.append(text.reason)
            self._not_before_turn = self._turn + 2 ** min(len(self.failures), 6)
            return
        self._texts[request.cache_key] = text
        self._pending.append(_Pending(ready_of(request, text), self._turn + self._delay_turns))
