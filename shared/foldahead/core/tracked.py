"""A history as it was last seen: its ledger, and whether the agent has changed anything in it since."""

from typing import Any

from foldahead.core.dialect import Dialect
from foldahead.core.fingerprint import fingerprint
from foldahead.core.ledger import Ledger, bodies_of


class TrackedHistory:
    """Follows one list of messages as it grows. Holds references to the agent's messages and never changes one."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.ledger = Ledger(dialect)
        self.messages: list[Any] = []
        self.revision = 0
        """Counts up when messages seen before come in another form."""
        self._prints: list[int] = []

    def __len__(self) -> int:
        return len(self.messages)

    def append(self, messages: list[Any]) -> None:
        """Take the messages that follow those seen. Raises `InvalidHistory`; those before the faulty one are taken."""
        for message in messages:
            mark = fingerprint(message)  # first: an object of the agent's may raise anything
            self.ledger.append(message)
            self.messages.append(message)
            self._prints.append(mark)

    def continued_by(self, history: list[Any], touched: int) -> bool:
        """Whether a history is the one seen, with something added.

        Looks at both ends of what was seen, and at all of the first `touched` messages. Messages that say the same
        in another way (a moved cache breakpoint, an SDK object read back as a dict) are the same.
        """
        count = len(self.messages)
        if not count:
            return True
        if len(history) < count:
            return False
        changed = self._changed(history, touched)
        if changed:
            self.ledger.settle()
        if not all(bodies_of(history, self.ledger, at, at + 1) for at in changed):
            return False
        self.revision += bool(changed)
        for at in changed:
            self.messages[at] = history[at]
            self._prints[at] = fingerprint(history[at])
        return True

    def _changed(self, history: list[Any], touched: int) -> list[int]:
        seen = self.messages
        last = len(seen) - 1
        looked_at = range(touched) if touched and _differ(history[:touched], seen[:touched]) else (0,)
        return [at for at in {*looked_at, last} if history[at] is not seen[at] and _differ(history[at], seen[at])]

    def unedited(self, history: list[Any], end: int) -> bool:
        """The re-hash of the messages before `end`: an edit in place by the agent is noticed here.

        By fingerprint, and where one differs (a moved cache breakpoint, say) by the digests that count.
        """
        self.ledger.settle()
        if self._prints[:end] == list(map(fingerprint, history[:end])):
            return True
        return len(bodies_of(history, self.ledger, 0, end)) == end

    def index_of(self, message: Any) -> int | None:
        """Where a message stands: the very object if it is there, else an equal one."""
        same = next((at for at, seen in enumerate(self.messages) if seen is message), None)
        if same is not None:
            return same
        return next((at for at, seen in enumerate(self.messages) if not _differ(seen, message)), None)


def _differ(one: Any, other: Any) -> bool:
    """Whether two messages, or lists of them, are not equal; what is nested too deeply to be compared is looked at
    as what it is made of."""
    try:
        return bool(one != other)
    except RecursionError:
        return fingerprint(one) != fingerprint(other)
