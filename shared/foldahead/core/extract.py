"""`extract`: a summary by rules, no model: what stands for a span when nothing better is ready.

The user's own words come first (on real sessions this beat every clever rule), then what is still open, what
was decided and done, and the exact references. Of something said twice the newest value is shown. What tools
printed is quoted as data. Deterministic, bounded by a token budget, and found message by message: `add` costs
what its message costs, `text` chooses among what was found.
"""

from collections.abc import Sequence

from foldahead.core.index import called_references
from foldahead.core.messages import SYSTEM_ROLES, Call, Message, Picture, Result, Thinking, text_of
from foldahead.core.redact import redact
from foldahead.core.text.compose import Findings, compose
from foldahead.core.text.entities import Entity, entities_in
from foldahead.core.text.outcomes import job_ids, result_text, settle, tells_an_end
from foldahead.core.text.parent import read_earlier
from foldahead.core.text.steps import Step, argument_texts, step_of
from foldahead.core.text.talk import request, said, told, without_harness
from foldahead.core.wrapper import is_ours, neutralise, unwrap


class Extractor:
    """Finds what a summary needs, message by message, and puts it together for any first part of them.

    `parent` is the text of an earlier summary that the first message follows: it is folded in.
    """

    def __init__(self, parent: str = "") -> None:
        self._count = 0
        self._found = Findings()
        self._open: dict[str, list[Step]] = {}
        self._jobs: dict[str, Step] = {}
        if parent:
            self._fold(unwrap(parent), -1)

    def __len__(self) -> int:
        return self._count

    def add(self, message: Message) -> None:
        """One message more. Costs what the message is long, at most a fixed part of a fat result."""
        called: list[Entity] = []
        seen: list[Entity] = []
        spoken: list[str] = []
        for block in message.blocks:
            match block:
                case Call():
                    short, long = self._begin(block)
                    called += short
                    seen += long
                case Result():
                    seen += self._settle(block)
                case Thinking() | Picture():
                    pass
                case _:
                    spoken.append(text_of((block,)))
        self._hear(message.role, "\n".join(spoken), calls=bool(called), seen=seen)
        self._found.index.add(called, lambda: seen)
        self._count += 1

    def text(self, end: int, budget_tokens: int) -> str:
        """The summary of the first `end` messages added, within `budget_tokens`. Wrapper-safe, redacted."""
        return neutralise(compose(self._found, end, budget_tokens))

    def _begin(self, call: Call) -> tuple[list[Entity], list[Entity]]:
        step = step_of(call, self._count)
        self._found.steps.append(step)
        self._open.setdefault(call.id, []).append(step)
        short, long = argument_texts(call)
        return called_references(short, step.label), entities_in(long)

    def _settle(self, result: Result) -> list[Entity]:
        text = result_text(result)
        if waiting := self._open.get(result.call):
            step = waiting.pop()
            settle(step, result, self._count, text)
            if step.state == "background":
                self._jobs.update((job, step) for job in job_ids(text))
            elif self._jobs and tells_an_end(step.name + text[:2_000]):
                self._end_jobs(step.full)
        return entities_in(text, names=False)

    def _end_jobs(self, text: str) -> None:
        for job in [job for job in self._jobs if job in text]:
            self._jobs.pop(job).ended_at = self._count

    def _hear(self, role: str, text: str, *, calls: bool, seen: list[Entity]) -> None:
        if not text.strip() or role in SYSTEM_ROLES:
            return  # those are in the view anyway
        if is_ours(text):
            self._fold(unwrap(text), self._count)
            return
        text = redact(text)
        if role == "user":
            if self._jobs and tells_an_end(text[:2_000]):
                self._end_jobs(text[:2_000])
            if words := without_harness(text):
                self._found.requests.append(request(words, self._count))
                self._found.said += said(words, self._count)
        elif role == "assistant":
            self._found.told += told(text, self._count, calls=calls)
        seen += entities_in(text)

    def _fold(self, summary: str, at: int) -> None:
        self._found.earlier.append(read_earlier(summary, at))


def extract(messages: Sequence[Message], budget_tokens: int, parent: str = "") -> str:
    """The summary by rules of a span, within `budget_tokens`: what an `Extractor` over it gives."""
    extractor = Extractor(parent)
    for message in messages:
        extractor.add(message)
    return extractor.text(len(messages), budget_tokens)
