"""Puts the results into docs/performance.md, between the marks that name a benchmark.

    python -m benchmarks.quote

After any benchmark was run again. The words around the tables are written by hand: read them again too.
"""

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS, shown

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
_MARKED = re.compile(r"<!-- (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def quoted(page: str, results: Path) -> str:
    """The page with every marked place filled from the result of that name; one without a result stays as it is."""

    def fill(match: "re.Match[str]") -> str:
        path = results / f"{match[1]}.json"
        if not path.exists():
            return match[0]
        return f"<!-- {match[1]} -->\n{block_of(json.loads(path.read_text('utf8')))}\n<!-- end -->"

    return _MARKED.sub(fill, page)


def block_of(result: dict[str, Any]) -> str:
    """A result as Markdown: its table, its targets, where and when."""
    rows: list[dict[str, Any]] = result["rows"]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [_line(columns), _line(["---"] * len(columns))]
    lines += [_line([shown(row.get(name)) for name in columns]) for row in rows]
    if result["targets"]:
        lines += ["", _line(["target", "", "measured", ""]), _line(["---"] * 4)]
        lines += [_target(target) for target in result["targets"]]
    return "\n".join([*lines, "", _where(result)])


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _target(target: dict[str, Any]) -> str:
    word = {True: "met", False: "**missed**", None: "not measured"}[target["met"]]
    sign = "at most" if target["at_most"] else "at least"
    limit = f"{sign} {shown(float(target['limit']))} {target['unit']}".strip()
    return _line([target["what"], limit, f"{shown(target['measured'])} {target['unit']}".strip(), word])


def _where(result: dict[str, Any]) -> str:
    machine, versions = result["machine"], result["versions"]
    used = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"*{result['date']}; {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, Python"
        f" {machine['python']}; load average when it ended {machine['load_average_1min']}; {used}.*"
    )


def main() -> None:
    PAGE.write_text(quoted(PAGE.read_text("utf8"), RESULTS), "utf8")


if __name__ == "__main__":
    main()
