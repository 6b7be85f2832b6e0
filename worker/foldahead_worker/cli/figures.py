"""Numbers as people read them."""


def short(count: int) -> str:
    """A count in at most five characters: 950, 12.3k, 4.56M."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if count >= size:
            value = count / size
            return f"{value:.0f}{unit}" if value >= 100 else f"{value:.1f}{unit}"
    return str(count)


def share(now: int, before: int) -> str:
    """How much smaller `now` is than `before`, as in 43%; empty when it is not."""
    return f"{1 - now / before:.0%}" if before and now < before else ""


def ago(milliseconds: int) -> str:
    """A time as people say it: 800 ms, 12 s, 5 min, 3 h."""
    for unit, size in (("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if milliseconds >= 2 * size:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"
