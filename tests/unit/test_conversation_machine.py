"""One session in several processes, at any interleaving of what agent, servers and provider do."""

from typing import Any

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from foldahead.core.conversation import Moment
from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import bodies_of, ledger_of
from foldahead.core.policy import Policy
from foldahead.core.request import SummaryRequest
from tests.fleet import Process, Shelf, as_json, copied, summary_for
from tests.histories import Spoken, conversations
from tests.unit.test_properties import policies

MISHAPS = (
    "rewinds",
    "edits in place",
    "loads anew",
    "moves its breakpoint",
    "pins",
    "is refused",
    "grows to a new process",
)


lively = policies(thresholds=(150, 400, 900), ratios=(0.7, 1.0), starts=(0.2, 0.5))
"""Policies under which much happens."""


class Fleet(RuleBasedStateMachine):
    """Processes that hold the same session and grow the same history, with a shelf between them."""

    @initialize(
        spoken=conversations(most_turns=14),
        policy=st.one_of(lively, lively, policies()),
        words=st.sampled_from([2, 25, 250]),
        begun=st.integers(0, 8),
    )
    def begin(self, spoken: Spoken, policy: Policy, words: int, begun: int) -> None:
        self.spoken, self.policy, self.words = spoken, policy, words
        self.shelf = Shelf()
        self.processes = [Process(spoken.dialect, policy, self.shelf)]
        self.request = min(begun, len(spoken.requests) - 1)
        self.history: list[Any] = copied(spoken.messages[: spoken.requests[self.request]])
        self.edits = 0
        self.pending: list[Any] = []

    def process(self, which: int) -> Process:
        return self.processes[which % len(self.processes)]

    @rule(which=st.integers(0, 2), cold=st.booleans(), hears=st.sampled_from([True, True, False]), prompt=st.booleans())
    @precondition(lambda self: self.request + 1 < len(self.spoken.requests))
    def a_whole_turn(self, which: int, cold: bool, hears: bool, prompt: bool) -> None:
        self.request += 1
        self.history.extend(copied(self.spoken.messages[len(self.history) : self.spoken.requests[self.request]]))
        process = self.process(which)
        if hears:
            process.exchange()
        self.view(process, cold)
        self.publish(process)
        if prompt and self.pending:
            self.shelf.ready.append(self.pending.pop())

    @rule(which=st.integers(0, 2), cold=st.booleans())
    def the_same_request_again(self, which: int, cold: bool) -> None:
        self.view(self.process(which), cold)

    @rule(which=st.integers(0, 2), start=st.integers(0, 40))
    def the_link_reads_what_was_hashed_so_far(self, which: int, start: int) -> None:
        conversation = self.process(which).conversation
        ledger, seen = conversation.ledger, conversation.seen()
        settled = list(ledger.settled_heads)
        assert len(settled) <= len(ledger) + 1
        bodies = bodies_of(seen, ledger, start, len(seen))
        assert ledger.settled_heads == settled, "the link hashed something"
        heads = ledger_of(seen, conversation.dialect).heads
        if heads[: len(settled)] == settled:  # else the agent edited a message in place since
            assert len(bodies) == max(0, len(settled) - 1 - start)

    @rule(which=st.integers(0, 2))
    def the_history_is_looked_at_and_nothing_is_asked(self, which: int) -> None:
        self.process(which).conversation.observe(self.history)

    @rule(data=st.data(), which=st.integers(0, 2))
    def a_job_ends(self, data: st.DataObject, which: int) -> None:
        if self.pending:
            self.shelf.ready.append(self.pending.pop(data.draw(st.integers(0, len(self.pending) - 1))))
        self.process(which).exchange()

    @rule(what=st.sampled_from(MISHAPS), which=st.integers(0, 2), data=st.data())
    def something_happens(self, what: str, which: int, data: st.DataObject) -> None:
        process, history = self.process(which), self.history
        match what:
            case "rewinds":
                self.request = max(0, self.request - data.draw(st.integers(1, 4)))
                self.history = history[: self.spoken.requests[self.request]]
            case "edits in place":
                self.edit(data.draw(st.integers(0, len(history) - 1)))
            case "loads anew":
                self.history = copied(history)
            case "moves its breakpoint":
                self.move_breakpoint()
            case "pins":
                process.conversation.observe(history)
                process.conversation.pin(data.draw(st.sampled_from(process.conversation.seen())))
            case "is refused":
                process.reject(history)
            case _ if len(self.processes) < 3:
                another = Process(self.spoken.dialect, self.policy, self.shelf)
                another.conversation.observe(copied(history))
                another.exchange()
                self.processes.append(another)
            case _:
                pass

    @rule()
    def processes_with_the_same_records_show_the_same(self) -> None:
        for _ in range(2):
            for process in self.processes:
                process.exchange()
        shown: set[str] = set()
        for process in self.processes:
            process.conversation.observe(copied(self.history))
            if process.is_stale(self.history):
                return
            shown.add(as_json(process.conversation.shown(self.history)))
        assert len(shown) == 1, "two processes show different views"
        records = self.shelf.all()
        assert len({record.identity for record in records}) == len(records)

    def view(self, process: Process, cold: bool) -> None:
        healed_from = process.conversation.degraded
        process.view(self.history, Moment(cold=cold))
        plan = process.conversation.plan
        event(f"{plan.outcome} {plan.reason}")
        if healed_from and plan.summary is not None:
            event(f"healed from {healed_from}")

    def publish(self, process: Process) -> None:
        request = process.ask(self.history)
        # The servers prove what they are given by the head: of what was edited in place nothing is made.
        if request is not None and self.is_proved(request):
            self.pending.append(summary_for(self.history, request, self.spoken.dialect, self.words))

    def is_proved(self, request: SummaryRequest) -> bool:
        heads = ledger_of(self.history, get_dialect(self.spoken.dialect)).heads
        return heads[request.start + request.message_count].hex() == request.head

    def edit(self, at: int) -> None:
        message = self.history[at]
        self.edits += 1
        if isinstance(message["content"], str):
            message["content"] += f" edit{self.edits}"
        elif message["content"] and message["content"][0].get("type") == "text":
            message["content"][0]["text"] += f" edit{self.edits}"

    def move_breakpoint(self) -> None:
        if self.spoken.dialect != "anthropic":
            return
        for message in self.history:
            for block in message["content"] if isinstance(message["content"], list) else []:
                block.pop("cache_control", None)
        last = self.history[-1]
        if isinstance(last["content"], list):
            last["content"][-1]["cache_control"] = {"type": "ephemeral"}


TestFleet = Fleet.TestCase
