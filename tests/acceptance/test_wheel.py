"""The built wheel, installed alone: an agent's process needs msgspec and redis, and nothing else.

Nothing is fetched: the wheel is built without isolation, and its base dependencies are copied, file by file,
from the environment that runs the tests.
"""

import importlib.metadata
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("agent_side.py")


def run(*command: str | Path) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what a build needs, so that the tree stays as it is."""
    source = tmp_path_factory.mktemp("source")
    for name in ("shared", "worker"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ("pyproject.toml", "LICENSE", "README.md"):
        if (ROOT / path).exists():
            shutil.copy(ROOT / path, source)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", source / "dist", source)
    (built,) = (source / "dist").glob("*.whl")
    return built


def base_requirements(distribution: str) -> list[str]:
    """The names that a distribution needs on this Python, without any extra."""
    wanted = map(Requirement, importlib.metadata.requires(distribution) or [])
    return [need.name for need in wanted if need.marker is None or need.marker.evaluate({"extra": ""})]


def copy_distribution(name: str, site_packages: Path) -> None:
    """Copies an installed distribution and what it needs."""
    distribution = importlib.metadata.distribution(name)
    for file in distribution.files or []:
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = site_packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(distribution.locate_file(file)), target)
    for need in base_requirements(name):
        copy_distribution(need, site_packages)


@pytest.fixture(scope="module")
def lone_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the wheel and its base dependencies alone."""
    folder = tmp_path_factory.mktemp("lone")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    site_packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-index",
        "--no-deps",
        "--quiet",
        wheel,
    )
    for need in base_requirements("foldahead"):
        copy_distribution(need, site_packages)
    return python


def test_the_wheel_holds_both_packages_with_their_types(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "foldahead/py.typed",
        "foldahead_worker/py.typed",
        "foldahead_worker/library/foldahead.lua",
    } <= names


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"foldahead", "foldahead_worker"}


def test_an_agent_needs_msgspec_and_redis_alone() -> None:
    assert base_requirements("foldahead") == ["msgspec", "redis"]


def test_an_agents_process_works_with_the_base_dependencies_alone(lone_python: Path) -> None:
    assert "the agent's side works alone" in run(lone_python, "-I", "-W", "error", SCRIPT)


def test_the_command_without_its_extra_says_what_to_install(lone_python: Path) -> None:
    ran = subprocess.run(
        [lone_python.with_name("foldahead"), "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode != 0
    assert "foldahead[worker]" in ran.stderr
    assert "Traceback" not in ran.stderr
