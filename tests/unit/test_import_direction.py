"""Imports point one way: cli -> watch, tasks -> store, summarizers -> core; client -> link -> wire -> core.

Read from the source text, so nothing is imported and an import inside a function counts like any other.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = (ROOT / "shared", ROOT / "worker")
OURS = ("foldahead", "foldahead_worker")
SETTINGS = "foldahead_worker.settings"

# What a room may import of ours, itself aside. `foldahead.errors` imports nothing and is open to all.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "foldahead.errors": (),
    "foldahead.core": ("foldahead.errors",),
    "foldahead.keys": ("foldahead.core", "foldahead.errors"),
    "foldahead.wire": ("foldahead.core", "foldahead.errors"),
    "foldahead": ("foldahead",),
    "foldahead_worker.store": ("foldahead.core", "foldahead.errors"),
    "foldahead_worker.summarizers": ("foldahead.core", "foldahead.errors"),
}
# Third-party packages that a room may import.
MAY_USE: dict[str, tuple[str, ...]] = {
    "foldahead.core": ("msgspec",),
    "foldahead": ("msgspec", "redis"),
    "foldahead_worker.store": ("msgspec", "alembic", "sqlalchemy", "psycopg"),
    "foldahead_worker.summarizers": ("msgspec", "anthropic", "httpx2"),  # the SDK's transport
}
# No clock, network, disk, environment, chance or thread in the core.
IMPURE = {
    *("asyncio", "concurrent", "http", "multiprocessing", "os", "pathlib", "random", "secrets", "select"),
    *(
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "uuid",
    ),
}


@cache
def modules() -> dict[str, Path]:
    """Every module of both packages by its dotted name."""
    found: dict[str, Path] = {}
    for root in SOURCE_ROOTS:
        for path in root.rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text("utf-8"))


@cache
def imports(module: str) -> frozenset[str]:
    """The dotted names that a module imports; `from a import b` is `a.b` where that is a module of ours."""
    names: set[str] = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively, in line {node.lineno}"
            base = node.module or ""
            whole = (f"{base}.{alias.name}" for alias in node.names)
            names.update(name if name in modules() else base for name in whole)
    return frozenset(names)


def within(name: str, room: str) -> bool:
    return name == room or name.startswith(f"{room}.")


def modules_in(room: str) -> Iterator[str]:
    return (module for module in modules() if within(module, room))


def of_ours(module: str) -> Iterator[str]:
    return (name for name in imports(module) if any(within(name, package) for package in OURS))


def third_party(module: str) -> set[str]:
    tops = {name.partition(".")[0] for name in imports(module)}
    return {top for top in tops if top not in sys.stdlib_module_names and top not in OURS}


@pytest.mark.parametrize("room", sorted({*MAY_IMPORT, *MAY_USE, SETTINGS}))
def test_every_room_with_a_rule_exists(room: str) -> None:
    assert list(modules_in(room))


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_lies_below_it(room: str) -> None:
    allowed = (room, *MAY_IMPORT[room])
    wrong = [
        f"{module} imports {name}"
        for module in modules_in(room)
        for name in of_ours(module)
        if not any(within(name, below) for below in allowed)
    ]
    assert wrong == []


@pytest.mark.parametrize("room", MAY_USE)
def test_a_room_uses_only_its_own_third_parties(room: str) -> None:
    wrong = [
        f"{module} uses {package}"
        for module in modules_in(room)
        for package in sorted(third_party(module) - set(MAY_USE[room]))
    ]
    assert wrong == []


def test_the_core_has_no_clock_network_disk_or_thread() -> None:
    wrong = [
        f"{module} imports {name}"
        for module in modules_in("foldahead.core")
        for name in imports(module)
        if name.partition(".")[0] in IMPURE
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("lower", "upper"), [("foldahead.link", "foldahead.client"), ("foldahead.wire", "foldahead.link")]
)
def test_a_lower_module_never_reaches_a_higher_one(lower: str, upper: str) -> None:
    reached: set[str] = set()
    ahead = [lower]
    while ahead:
        module = ahead.pop()
        if module not in reached:
            reached.add(module)
            ahead.extend(name for name in of_ours(module) if name in modules())
    assert upper in modules()
    assert upper not in reached


@pytest.mark.parametrize("package", OURS)
def test_no_module_imports_the_door_of_its_own_package(package: str) -> None:
    wrong = [module for module in modules_in(package) if module != package and package in imports(module)]
    assert wrong == []


def test_only_the_command_line_imports_the_command_line() -> None:
    cli = "foldahead_worker.cli"
    wrong = [
        module for module in modules() if not within(module, cli) and any(within(name, cli) for name in imports(module))
    ]
    assert wrong == []


def reads_environment(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="os"), attr="environ" | "environb" | "getenv" | "putenv"):
            return True
        case ast.ImportFrom(module="os", names=names):
            return any(alias.name in {"environ", "environb", "getenv", "putenv"} for alias in names)
        case _:
            return False


def test_the_environment_is_read_in_settings_alone() -> None:
    wrong = [
        f"{module}, line {getattr(node, 'lineno', 0)}"
        for module in modules()
        if module != SETTINGS
        for node in ast.walk(tree(module))
        if reads_environment(node)
    ]
    assert wrong == []
