"""Choosing lines under a token budget: each line has a section, a rank and a size; a section has a share."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from foldahead.core.tokens import estimate_text


class Line(Struct):
    """A candidate. `order` places it in its section; the order of choice is that of the offer."""

    section: str
    order: tuple[int, int]
    text: str
    tokens: int


def line(section: str, at: int, seq: int, text: str) -> Line:
    """A candidate with its size, list mark and line end included."""
    return Line(section, (at, seq), text, estimate_text(text) + 1)


class Pack:
    """Lines chosen so far, and what they cost."""

    def __init__(self, budget_tokens: int, heading_tokens: Mapping[str, int]) -> None:
        self.left_tokens = budget_tokens
        self.lines: dict[str, list[Line]] = {}
        self._heading_tokens = heading_tokens

    def offer(self, lines: Iterable[Line], most_tokens: int) -> list[Line]:
        """Takes what fits, in this order, within `most_tokens` and what is left. Gives back what did not."""
        refused: list[Line] = []
        spent = 0
        for line in lines:
            cost = line.tokens + (0 if line.section in self.lines else self._heading_tokens[line.section])
            if cost > self.left_tokens or spent + cost > most_tokens:
                refused.append(line)
                continue
            spent += cost
            self.left_tokens -= cost
            self.lines.setdefault(line.section, []).append(line)
        return refused

    def section(self, name: str) -> list[str]:
        """The chosen lines of a section in their order."""
        return [line.text for line in sorted(self.lines.get(name, ()), key=lambda line: line.order)]
