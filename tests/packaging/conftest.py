"""A checkout, a wheel built from it, and pytest runs that start somewhere else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Completed = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def pyproject(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="session")
def python() -> Callable[..., Completed]:
    """`python(*arguments, cwd=…)` runs this interpreter, without this run's pytest settings."""

    def run(*arguments: str, cwd: Path, path: Path | None = None) -> Completed:
        ours = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "PYTHONPATH"))}
        environment = ours | {"PYTHONPATH": str(path)} if path else ours
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=cwd,
            env=environment | {"COLUMNS": "120"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def run_pytest(python: Callable[..., Completed]) -> Callable[..., Completed]:
    """`run_pytest(*arguments, cwd=…)`: a run of its own, as a user starts it."""

    def run(*arguments: str, cwd: Path, path: Path | None = None) -> Completed:
        return python("-m", "pytest", "-p", "no:cacheprovider", *arguments, cwd=cwd, path=path)

    return run


@pytest.fixture(scope="session")
def wheel(
    root: Path,
    pyproject: dict[str, Any],
    python: Callable[..., Completed],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The project's wheel, built from a copy: a build leaves folders behind, and reuses them."""
    pytest.importorskip("setuptools", minversion="77", reason="building needs setuptools>=77")
    source = tmp_path_factory.mktemp("source")
    for name in {folder.split("/")[0] for folder in package_folders(pyproject).values()}:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", "conftest.py"):
        shutil.copy(root / name, source)
    output = tmp_path_factory.mktemp("wheel")
    built = python(
        "-c",
        "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])",
        str(output),
        cwd=source,
    )
    assert built.returncode == 0, built.stderr
    return next(output.glob("*.whl"))


@pytest.fixture(scope="session")
def installed_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for `path=` that holds what the wheel installs."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def package_folders(pyproject: dict[str, Any]) -> dict[str, str]:
    """The top packages and the folders of the checkout that hold them."""
    folders: dict[str, str] = pyproject["tool"]["setuptools"]["package-dir"]
    return folders
