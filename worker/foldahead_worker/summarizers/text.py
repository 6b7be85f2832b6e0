"""`text`: a Claude model writes the summary (design section 6, "Summarisers").

A span that fits neither the model's window nor its cheap price band is read in leaves side by side, and their
notes are folded into one. All calls of one answer are paid together; an error tells what was consumed by
then.
"""

from collections.abc import Mapping, Sequence

from foldahead.core.leaves import group_notes, split_span
from foldahead.core.messages import Message
from foldahead.core.models import Model
from foldahead.core.prompt import Part, Prompt, build_fold, build_prompt
from foldahead.core.request import SummaryKind, SummaryRequest
from foldahead.core.summarise import nonce_of
from foldahead.core.tokens import estimate, estimate_text
from foldahead.core.verify import verify_text
from foldahead_worker.summarizers.asking import (
    FRAMING_TOKENS,
    TOKENS_AT_MOST,
    Asker,
    ModelSummarizer,
    Room,
    known_by,
    most_of,
    priced,
)
from foldahead_worker.summarizers.protocol import (
    Answer,
    Check,
    Cost,
    Forecast,
    Span,
    SummarizerError,
)
from foldahead_worker.summarizers.streaming import Reply

THINKING_TOKENS = 2_048
"""Room for thinking at low effort, beside the answer's own budget: `max_tokens` counts both."""
MOST_TRANSCRIPT_TOKENS = 6_000_000
"""24 MB: the API refuses requests of 32 MB, and JSON escapes make a request longer than its text."""
HALVINGS = 3
"""How often a span that was refused as too long is cut finer."""
LEAST_LEAF_TOKENS = 1_000
LEAST_NOTE_TOKENS = 300
_ANY_SIZE = 2**62


class TextSummarizer(ModelSummarizer):
    """Summaries by a Claude model, for the workspace that the account pays for."""

    kind: SummaryKind = "text"

    def forecast(self, span: Span) -> Forecast:
        room = room_for(span, self._models)
        prompts = _leaf_prompts(span, room.transcript_tokens)
        sizes = [estimate_text(prompt.text) for prompt in prompts]
        sizes += _fold_sizes(span, len(prompts), room)
        once = sum((most_of(room, size) for size in sizes), Cost())
        return Forecast(
            picodollars=once.picodollars,
            calls=len(sizes),
            input_tokens=sum(sizes),
            output_tokens=len(sizes) * span.request.length_target_tokens,
            prompts=prompts,
        )

    def summarise(self, span: Span, check: Check) -> Answer:
        room = room_for(span, self._models)
        reply, cost = self._asked(room, check, lambda asker: _cut_finer(span, room, asker))
        return Answer(text=reply.text, stop_reason=reply.stop_reason, cost=cost)


def room_for(span: Span, models: Mapping[str, Model]) -> Room:
    """How the request's model may be asked. Raises `SummarizerError` for one that is not known, or has no price."""
    request = span.request
    model = priced(request.model, models)
    max_tokens = min(model.output_tokens, request.max_tokens + (THINKING_TOKENS if model.thinks else 0))
    # In the cheap band for certain, however badly the estimate is off.
    most = min(model.window_tokens - max_tokens, model.band_tokens or model.window_tokens)
    around = build_fold((), nonce="", length_target_tokens=request.length_target_tokens, tighter=True).text
    spent = estimate_text(around) + estimate_text(request.instructions) + FRAMING_TOKENS
    transcript = min(int((most - FRAMING_TOKENS) / TOKENS_AT_MOST) - spent, MOST_TRANSCRIPT_TOKENS)
    return Room(
        name=known_by(request.model),
        model=model,
        transcript_tokens=max(LEAST_LEAF_TOKENS, transcript),
        max_tokens=max_tokens,
    )


def _cut_finer(span: Span, room: Room, asker: Asker) -> Reply:
    """The reply; where the provider finds a prompt too long after all, from leaves of half the size."""
    most_tokens = room.transcript_tokens
    prompts = () if span.tighter else span.prompts
    for _ in range(HALVINGS):
        try:
            return _written(span, prompts or _leaf_prompts(span, most_tokens), most_tokens, asker)
        except SummarizerError as error:
            if not error.too_large or most_tokens < 2 * LEAST_LEAF_TOKENS:
                raise
            most_tokens, prompts = min(most_tokens, sum(map(estimate, span.messages))) // 2, ()
    most_tokens = max(LEAST_LEAF_TOKENS, most_tokens)
    return _written(span, _leaf_prompts(span, most_tokens), most_tokens, asker)


def _written(span: Span, prompts: Sequence[Prompt], most_tokens: int, asker: Asker) -> Reply:
    """One reply for the span, from those of its parts. One that may not be stored ends the work: it is the reply."""
    replies = asker.ask(prompts)
    if len(prompts) == 1:
        return replies[0]
    notes = [span.parent_text] if span.parent_text else []
    while True:
        if (bad := _unusable(replies)) is not None:
            return bad
        notes = [*notes, *(reply.text for reply in replies)]
        groups = group_notes(notes, most_tokens)
        folded = [group for group in groups if len(group) > 1]
        replies = asker.ask([_fold_prompt(span, group, last=len(groups) == 1) for group in folded])
        if len(groups) == 1:
            return replies[0]
        # A single note at the end waits for the next round, behind what was folded.
        notes, single = [], [group[0] for group in groups if len(group) == 1]
        replies += [Reply(text=note, stop_reason="end_turn", cost=Cost()) for note in single]


def _unusable(replies: Sequence[Reply]) -> Reply | None:
    for reply in replies:
        if not verify_text(reply.text, _ANY_SIZE, reply.stop_reason).ok:
            return reply
    return None


def _split(span: Span, most_tokens: int) -> tuple[tuple[Message, ...], ...]:
    cap = span.request.tool_result_cap
    leaves = split_span(span.messages, cap, max(LEAST_LEAF_TOKENS, most_tokens - estimate_text(span.parent_text)))
    return leaves if len(leaves) == 1 else split_span(span.messages, cap, most_tokens)


def _leaf_prompts(span: Span, most_tokens: int) -> tuple[Prompt, ...]:
    """The prompts for the span in parts of `most_tokens` at most: one where it fits whole."""
    leaves = _split(span, most_tokens)
    request, count = span.request, len(leaves)
    length = request.length_target_tokens if count == 1 else _note_tokens(request, count)
    return tuple(
        build_prompt(
            leaf,
            nonce=nonce_of(request),
            length_target_tokens=length,
            tool_result_cap=request.tool_result_cap,
            instructions=request.instructions,
            parent=span.parent_text if count == 1 else "",
            tighter=span.tighter,
            part=Part(number, count) if count > 1 else None,
        )
        for number, leaf in enumerate(leaves, 1)
    )


def _fold_prompt(span: Span, notes: Sequence[str], *, last: bool) -> Prompt:
    request = span.request
    return build_fold(
        notes,
        nonce=nonce_of(request),
        length_target_tokens=request.length_target_tokens if last else _note_tokens(request, len(notes)),
        instructions=request.instructions,
        tighter=span.tighter,
    )


def _note_tokens(request: SummaryRequest, parts: int) -> int:
    """How long the note of one part is to be: together twice as long as what is made of them."""
    target = request.length_target_tokens
    return max(LEAST_NOTE_TOKENS, min(target, 2 * target // parts))


def _fold_sizes(span: Span, leaves: int, room: Room) -> list[int]:
    """Estimated tokens of each fold's prompt, when every note is as long as it can be."""
    if leaves == 1:
        return []
    around = estimate_text(_fold_prompt(span, (), last=True).text)
    sizes: list[int] = []
    notes = leaves + bool(span.parent_text)
    fitting = max(2, room.transcript_tokens // room.max_tokens)
    while notes > 1:
        folds = -(-notes // fitting)
        sizes += [around + min(fitting, notes) * room.max_tokens] * folds
        notes = folds
    return sizes
