"""Thinking that was bound to a view, once the history is sent in its place: judged by the stand-in, turn by turn."""

from collections.abc import Iterator
from typing import Any

import pytest

from foldahead import Foldahead, Policy
from foldahead.session import Session
from foldahead_worker.playing.providers import Refused, StandIn
from foldahead_worker.standin import Options, start_standin
from tests.conversations import conversation

TOOLS = [{"name": "run", "input_schema": {"type": "object"}}]
NO_REDIS = "redis://127.0.0.1:1/0"
"""Summaries come by rules, at the hard cap, and nothing is known of other processes."""
POLICY = Policy(threshold_tokens=2_500, hard_cap_tokens=3_000, min_span_tokens=200, preserve_recent_turns=3)


class Talk:
    """An agent that thinks at every turn, on a model that binds thinking."""

    def __init__(self, provider: StandIn, session: Session) -> None:
        self._provider = provider
        self._history: list[Any] = conversation(1)[:1]
        self._recorded = iter(conversation(200)[1:])
        self.session = session

    def turn(self) -> None:
        """A call, its result, an answer, the next question. Raises Refused."""
        call, result = next(self._recorded), next(self._recorded)
        self._ask(call["content"])
        self._history.append(result)
        self._ask([{"type": "text", "text": "Done."}])
        self._history.append({"role": "user", "content": "Go on."})

    def swap(self) -> None:
        """Go on until one more summary is shown."""
        shown = self._shown()
        while self._shown() == shown:
            self.turn()

    def again(self) -> list[Any]:
        """The view of the history as it is."""
        return self._request()["messages"]

    def _shown(self) -> int:
        return sum(record.stands_for_span for record in self.session.records)

    def _ask(self, content: list[Any]) -> None:
        thought = {"type": "thinking", "thinking": f"thought {len(self._history)}"}
        answer = {"role": "assistant", "content": [thought, *content]}
        self._history += self._provider.ask(self._request(), self._history, [answer]).messages
        self.session.publish(self._history)

    def _request(self) -> dict[str, Any]:
        thinking = {"type": "adaptive"}
        return self.session.request(
            model="claude-sonnet-5-5", max_tokens=4_000, tools=TOOLS, thinking=thinking, messages=self._history
        )


@pytest.fixture
def talk() -> Iterator[Talk]:
    with start_standin(Options(foreign_thinking="refuse")) as standin:
        provider = StandIn(standin.url)
        fold = Foldahead(NO_REDIS)
        made = Talk(provider, fold.session("s", policy=POLICY))
        made.swap()
        made.swap()
        made.turn()
        yield made
        fold.close()
        provider.close()


def test_a_history_that_is_given_back_after_two_swaps_is_taken(talk: Talk) -> None:
    talk.session.rejected(ValueError("400"))
    for _ in range(4):
        talk.turn()


def test_a_session_that_is_turned_off_and_on_again_is_taken_at_every_turn(talk: Talk) -> None:
    for mode in ("off", "on", "shadow", "on"):
        talk.session.mode = mode
        for _ in range(3):
            talk.turn()
    talk.swap()


def test_nothing_of_a_summary_is_shown_while_a_session_is_off(talk: Talk) -> None:
    assert "<COMPACTION_SUMMARY" in str(talk.again())
    talk.session.mode = "off"
    assert "<COMPACTION_SUMMARY" not in str(talk.again())


def test_a_process_that_knows_nothing_of_a_swap_goes_on_once_it_was_refused(talk: Talk) -> None:
    other = Foldahead(NO_REDIS)
    talk.session = other.session("s")
    with pytest.raises(Refused, match="bound to a different conversation"):
        talk.turn()
    talk.session.rejected(ValueError("400"))
    talk.turn()
    other.close()
