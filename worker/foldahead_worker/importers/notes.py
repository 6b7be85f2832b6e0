"""Notes on what an importer passed over: one line each, and a bounded number of them."""

from __future__ import annotations

MAX_NOTES = 50  # a log of a million broken lines needs no million notes


class Notes:
    """Collects notes while a file is read."""

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._more = 0

    def add(self, note: str) -> None:
        """Keep a note (the same one once), or count it when there are enough."""
        line = " ".join(note.split())
        if line in self._kept:
            return
        if len(self._kept) < MAX_NOTES:
            self._kept.append(line)
        else:
            self._more += 1

    def listed(self) -> tuple[str, ...]:
        """The notes in order; the last says how many more there were."""
        return (*self._kept, f"and {self._more} more notes") if self._more else tuple(self._kept)
