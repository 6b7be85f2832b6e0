"""Why sessions were left alone: said once for each change, counted by class."""

import re
from collections import OrderedDict

KNOWN = frozenset(
    {
        "below_start",
        "early",
        "failed before",
        "no effect",
        "no_valid_boundary",
        "not worth it",
        "nothing_to_compact",
        "span too small",
        "would not get under its target",
    }
)
OTHER = "other"
MOST_REMEMBERED = 10_000
_FIGURES = re.compile(r"(:| \d).*", re.DOTALL)


def class_of(reason: str) -> str:
    """A reason without its figures. Agents name some themselves: what none of ours is, is `OTHER`."""
    bare = _FIGURES.sub("", reason)
    return bare if bare in KNOWN else OTHER


class Reasons:
    """What was said last of each session, as long as it is among the last `MOST_REMEMBERED`."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, str] = OrderedDict()

    def is_news(self, member: str, reason: str) -> bool:
        """Whether another class of reason than the last one is given for a session."""
        before, now = self._last.pop(member, None), class_of(reason)
        self._last[member] = now
        if len(self._last) > MOST_REMEMBERED:
            self._last.popitem(last=False)
        return before != now

    def forget(self, member: str) -> None:
        """It is not left alone any more."""
        self._last.pop(member, None)
