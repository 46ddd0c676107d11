"""The wheel holds the packages and their data, and its suites run wherever it is installed."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from email.message import Message
from email.parser import Parser
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from fakes.settings import make_settings

from benchrack.execution.executors import Worker
from benchrack.execution.messages import Setup
from benchrack.vocabulary.devices import Device

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture
def metadata(installed_wheel: Path) -> Message:
    (file,) = installed_wheel.glob("benchrack-*.dist-info/METADATA")
    return Parser().parsestr(file.read_text("utf-8"))


def test_holds_what_the_tree_holds(names: list[str], root: Path, pyproject: dict[str, Any]) -> None:
    expected = {
        str(Path(*package.split(".")) / file.relative_to(root / folder))
        for package, folder in pyproject["tool"]["setuptools"]["package-dir"].items()
        for file in (root / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {name for name in names if not name.split("/")[0].endswith(".dist-info")} == expected


def test_installs_nothing_beside_benchrack(names: list[str]) -> None:
    """No `plugins` or `tests` at the top of site-packages, and no conftest anywhere."""
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"benchrack"}
    assert [
        name for name in names if "conftest" in name or name.startswith("benchrack/tests")
    ] == []
    assert "benchrack/py.typed" in names


def test_entry_points(installed_wheel: Path) -> None:
    (file,) = installed_wheel.glob("benchrack-*.dist-info/entry_points.txt")
    assert file.read_text("utf-8").split() == [
        *("[console_scripts]", "benchrack", "=", "benchrack.command.cli:main"),
        *("[pytest11]", "benchrack", "=", "benchrack.pytest_plugin.entry"),
    ]


def test_metadata(metadata: Message) -> None:
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    extras = {"all", "onnxruntime", "pytorch", "samples", "tensorrt"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras
    base = [r for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r]
    assert [r for r in base if r.startswith(("torch", "onnx", "numpy"))] == []


def test_suites_are_collected_from_the_wheel(
    run_pytest: Run, installed_wheel: Path, tmp_path: Path
) -> None:
    run = run_pytest(
        *("--pyargs", "benchrack.suites", "-m", "inference", "--collect-only", "-q"),
        *("--rootdir", str(installed_wheel)),
        cwd=tmp_path,
        path=installed_wheel,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    file = "benchrack/suites/inference/test_throughput.py"
    assert f"{file}::test_throughput[resnet50-pytorch-fp32-b8-x1]" in run.stdout.splitlines()


def test_a_worker_is_of_the_installed_package(tmp_path: Path) -> None:
    """Also where the directory of the call has a folder of that name, as a checkout has."""
    (tmp_path / "benchrack").mkdir()
    (tmp_path / "benchrack" / "__init__.py").write_text("raise SystemExit('not the package')")
    command = Worker(
        setup=Setup(settings=make_settings(), device=Device(kind="cpu"), cache="")
    ).command
    worker = subprocess.run(
        [*command, "0"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,  # a worker ends with its line
        capture_output=True,
        text=True,
        check=False,
    )
    assert (worker.returncode, worker.stderr) == (0, "")
