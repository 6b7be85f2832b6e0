"""A session as the link sees it, with real bodies and heads, for tests of the Redis room."""

from collections.abc import Iterator, Sequence

from foldahead import keys, wire
from foldahead.core import canonical
from foldahead.core.messages import Message, Text
from foldahead.core.policy import Policy
from foldahead.core.record import Record, encode_record

DIALECT = "anthropic"


class Scribe:
    """Writes a history message by message; hears and remembers what Redis answers."""

    def __init__(self, name: str = "s", workspace: str = "acme", due_in_s: float | None = None) -> None:
        self.workspace, self.name = workspace, name
        self.member = keys.member(workspace, name)
        self.due_in_s = due_in_s
        self.upload = True
        self.at_hard_cap = False
        self.texts: list[str] = []
        self.heads = [canonical.first_head(DIALECT)]
        self.kept: list[bytes] = []
        self.answers: list[wire.Answer] = []
        self.events: list[bytes] = []
        self.encoded = 0

    def say(self, *texts: str) -> "Scribe":
        """Append messages."""
        for text in texts:
            self.texts.append(text)
            self.heads.append(canonical.next_head(self.heads[-1], canonical.digest(body_of(text))))
        return self

    def rewind(self, to: int) -> "Scribe":
        """Take the messages from `to` on back."""
        del self.texts[to:], self.heads[to + 1 :]
        return self

    def standing(self) -> wire.Standing:
        """How the session stands."""
        return a_standing(len(self.texts), self.heads[-1], self.at_hard_cap)

    def stored(self, start: int = 0) -> list[tuple[bytes, bytes]]:
        """What Redis is to have of the messages from `start` on."""
        return [(self.heads[at + 1], body_of(self.texts[at])) for at in range(start, len(self.texts))]

    def delta(self) -> wire.Delta | None:
        return wire.Delta(
            workspace=self.workspace,
            session=self.name,
            standing=self.standing(),
            due_in_s=self.due_in_s,
            upload=self.upload,
        )

    def head(self, at: int) -> bytes | None:
        return self.heads[at] if at < len(self.heads) else None

    def bodies(self, start: int) -> Iterator[tuple[bytes, bytes]]:
        for pair in self.stored(start):
            self.encoded += 1
            yield pair

    def envelope(self, digest: str) -> bytes | None:
        return None

    def records(self) -> Sequence[bytes]:
        return self.kept

    def take_events(self) -> Sequence[bytes]:
        taken, self.events = self.events, []
        return taken

    def receive(self, answer: wire.Answer) -> None:
        self.answers.append(answer)


def body_of(text: str) -> bytes:
    """The canonical body of a user message."""
    return canonical.encode(Message("user", (Text(text),)))


def a_standing(messages: int = 0, head: bytes = bytes(32), at_hard_cap: bool = False) -> wire.Standing:
    """A standing in which only the history matters."""
    return wire.Standing(
        dialect=DIALECT,
        policy=Policy(),
        messages=messages,
        head=head,
        turns=1,
        turn_id="1",
        pending_tokens=20_000,
        prefix_tokens=0,
        tail_tokens=0,
        growth_tokens=100.0,
        interval_s=10.0,
        at_hard_cap=at_hard_cap,
    )


def a_ready(cache_key: str = "key", end: int = 4, text: str = "so far") -> wire.Ready:
    """A summary that is ready."""
    return wire.Ready(cache_key=cache_key, kind="text", model="m", start=0, end=end, head_end=bytes(32), text=text)


def a_record(start: int = 0, end: int = 2, created_at_ms: int = 1) -> bytes:
    """A record of a span, JSON."""
    record = Record(
        kind="swapped",
        start=start,
        end=end,
        head_start="00" * 32,
        head_end="11" * 32,
        cache_key=f"key {start} {end}",
        message={"role": "user", "content": "so far"},
        created_at_ms=created_at_ms,
    )
    return encode_record(record)
