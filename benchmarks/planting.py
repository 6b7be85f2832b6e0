"""What is planted into a span to see whether it is still there: constraints in four places, a value that changes.

The places are those of the COMPINT benchmark (arXiv 2606.22528): all at the top, in the middle, at the bottom, spread.
"""

from dataclasses import dataclass

from benchmarks.histories import History

PLACES = ("top", "middle", "bottom", "spread")
CONSTRAINTS = (
    "Never write to the folder vault-7Q31 without asking me first.",
    "Every new endpoint must answer within 340 ms, or it does not ship.",
    "Do not upgrade libkestrel beyond 4.18.2, the license changed after it.",
    "All dates in the export have to be written as DD.MM.YYYY.",
    "Only ever deploy from the branch release/heron, not from main.",
)
OLD_VALUE, NEW_VALUE = "8123", "9345"
EARLIER = f"The staging server listens on port {OLD_VALUE}."
LATER = f"Correction: the staging server listens on port {NEW_VALUE} now."


@dataclass(frozen=True)
class Planted:
    """A span with what was put into it."""

    span: History
    place: str


def plant(span: History, place: str, boundaries: list[int]) -> Planted:
    """The span with the constraints in a place, and the two values at a fifth and at four fifths of it.

    `boundaries` are the indices before which a user may speak, ascending.
    """
    spoken: dict[int, list[str]] = {}
    for sentence, share in zip(CONSTRAINTS, _shares(place), strict=True):
        spoken.setdefault(_at(boundaries, share), []).append(sentence)
    spoken.setdefault(_at(boundaries, 0.2), []).append(EARLIER)
    spoken.setdefault(_at(boundaries, 0.8), []).append(LATER)
    planted: History = []
    for at, message in enumerate(span):
        planted += [{"role": "user", "content": sentence} for sentence in spoken.get(at, ())]
        planted.append(message)
    return Planted(planted, place)


def _shares(place: str) -> tuple[float, ...]:
    if place == "spread":
        return tuple((at + 0.5) / len(CONSTRAINTS) for at in range(len(CONSTRAINTS)))
    return (({"top": 0.0, "middle": 0.5, "bottom": 1.0}[place]),) * len(CONSTRAINTS)


def _at(boundaries: list[int], share: float) -> int:
    return boundaries[min(len(boundaries) - 1, int(share * len(boundaries)))]


def kept_constraints(summary: str) -> float:
    """Share of the planted constraints that a summary holds word for word."""
    plain = " ".join(summary.split())
    return sum(sentence.rstrip(".") in plain for sentence in CONSTRAINTS) / len(CONSTRAINTS)


def newest_wins(summary: str) -> bool:
    """Whether the later value is there, and the earlier one, if it is at all, does not come after it."""
    return NEW_VALUE in summary and summary.rfind(OLD_VALUE) < summary.rfind(NEW_VALUE)
