"""Installing Benchrack changes nobody else's pytest run; its own runs have its options."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[str]]

# Options as other projects have them: the same names, and so the same destinations.
CONFTEST = """
import pytest

def pytest_addoption(parser):
    for name in ("device", "models", "backends", "dataset", "weights", "sweep", "set"):
        parser.addoption("--" + name, default="none")

@pytest.fixture
def case():
    return "their case"
"""
TEST = """
def test_theirs(request, case):
    assert request.config.getoption("device") == "gpu7"
    assert request.config.getoption("models") == "none"
    assert case == "their case"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Somebody else's project, outside of the checkout."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_theirs.py").write_text(TEST)
    return tmp_path


@pytest.mark.parametrize("arguments", [(), ("-p", "no:benchmark"), ("test_theirs.py",)])
def test_a_project_with_options_of_the_same_names_still_runs(
    run_pytest: Run, project: Path, arguments: tuple[str, ...]
) -> None:
    run = run_pytest("-W", "error", "--device=gpu7", *arguments, cwd=project)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout
    assert "sweep" not in run.stdout


def test_elsewhere_there_are_no_options_and_no_markers(run_pytest: Run, tmp_path: Path) -> None:
    assert "--device-counts" not in run_pytest("--help", cwd=tmp_path).stdout
    assert "pytest.mark.inference" not in run_pytest("--markers", cwd=tmp_path).stdout


def test_in_the_checkout_there_are_options_and_markers(run_pytest: Run, root: Path) -> None:
    text = run_pytest("--help", cwd=root).stdout
    options = ("--sweep", "--models", "--backends", "--batch-sizes", "--device-counts", "--device")
    for option in (*options, "--dataset", "--weights", "--set"):
        assert f"  {option}" in text
    text = run_pytest("--markers", cwd=root / "suites").stdout
    for marker in ("inference", "throughput", "latency", "accuracy"):
        assert f"@pytest.mark.{marker}:" in text


def test_the_plugin_can_be_asked_for(run_pytest: Run, tmp_path: Path) -> None:
    run = run_pytest("-p", "benchrack.pytest_plugin", "--help", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "  --device-counts" in run.stdout


@pytest.mark.parametrize("arguments", [(), ("-p", "no:benchmark")])
def test_in_the_checkout_the_plugin_may_be_named_too(
    run_pytest: Run, root: Path, arguments: tuple[str, ...]
) -> None:
    """The entry point and -p together load it once."""
    run = run_pytest(
        *("-p", "benchrack.pytest_plugin", *arguments, "-m", "inference", "--collect-only", "-q"),
        cwd=root,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "test_throughput[resnet50-pytorch-fp32-b8-x1]" in run.stdout


def test_a_file_of_the_suites_named_from_elsewhere_is_a_run_of_benchrack(
    run_pytest: Run, root: Path, tmp_path: Path
) -> None:
    file = root / "suites" / "inference" / "test_latency.py"
    run = run_pytest(str(file), "--collect-only", "-q", "--models=resnet50", cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "test_latency[resnet50-pytorch-fp32-b1-x1]" in run.stdout


def test_a_checkout_without_an_installation_says_what_to_do(
    python: Run, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_bytes((root / "conftest.py").read_bytes())
    hidden = (
        "import importlib.util, sys, pytest\n"
        "find = importlib.util.find_spec\n"
        "hide = lambda name, *a: None if name.startswith('benchrack') else find(name, *a)\n"
        "importlib.util.find_spec = hide\n"
        "sys.exit(pytest.main(['-p', 'no:benchrack', '-p', 'no:cacheprovider']))\n"
    )
    run = python("-c", hidden, cwd=tmp_path)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "pip install -e '.[all]'" in run.stderr
    assert "Traceback" not in run.stdout + run.stderr


def test_this_run_uses_the_checkout(root: Path) -> None:
    """Else the tests above would test another installation."""
    assert Path(sys.modules["benchrack"].__file__ or "").is_relative_to(root)
