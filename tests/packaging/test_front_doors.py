"""The commands of the README, tox's environments and the workflows hang together."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    # A make that runs these tests hands its own flags down, and its variables as well by name.
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS")) and name not in ("VENV", "PYTHON", "ARGS")
    }
    return subprocess.run(
        ["make", *arguments], cwd=cwd, env=ours, capture_output=True, text=True, check=False
    )


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A folder with what make looks at, and no environment."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(root / name, tmp_path)
    return tmp_path


@pytest.fixture
def tox(root: Path) -> configparser.ConfigParser:
    config = configparser.ConfigParser(interpolation=None)
    config.read(root / "tox.ini", encoding="utf-8")
    return config


@needs_make
def test_help_names_every_target(root: Path) -> None:
    run = make("help", cwd=root)
    targets = [line.split()[0] for line in run.stdout.splitlines()]
    phony = re.search(r"^\.PHONY: (.*)$", (root / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert phony is not None
    assert targets == phony[1].split()


@needs_make
def test_an_old_python_is_refused(copy: Path, tmp_path: Path) -> None:
    """The message names what was found and what to do; no environment is left behind."""
    old = tmp_path / "old-python"
    pretend = "import sys; sys.version_info = (3, 9, 2); sys.version = '3.9.2 (old)'"
    old.write_text(f'#!/bin/sh\nexec python3 -c "{pretend}; exec(sys.argv[2])" "$@"\n')
    old.chmod(0o755)
    run = make("inference", f"PYTHON={old}", cwd=copy)
    assert run.returncode != 0
    assert f"Benchrack needs Python 3.11 or newer; {old} is 3.9.2" in run.stderr
    assert "make inference PYTHON=python3.12" in run.stderr
    assert not (copy / ".venv").exists()


@needs_make
def test_an_environment_that_is_up_to_date_is_not_installed_again(copy: Path) -> None:
    binaries = copy / ".venv" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "pip").touch()
    assert "pip install -e '.[all]'" in make("-n", "inference", cwd=copy).stdout
    (copy / ".venv" / ".benchrack").touch()
    planned = make("-n", "inference", "ARGS=--models=vgg16", cwd=copy).stdout
    assert "pip install" not in planned
    assert "pytest -m inference --models=vgg16" in planned


@needs_make
@pytest.mark.parametrize("status", [0, 1, 2])
@pytest.mark.parametrize("measured", [True, False])
def test_inference_keeps_pytests_exit_code_and_reports_what_was_measured(
    copy: Path, status: int, measured: bool
) -> None:
    binaries = copy / ".venv" / "bin"
    binaries.mkdir(parents=True)
    (copy / "results").mkdir()
    (copy / "results" / "older.json").touch()
    os.utime(copy / "results" / "older.json", (0, 0))
    measure = "touch -d tomorrow results/newer.json" if measured else "true"
    for name, script in (("pip", "true"), ("pytest", measure), ("benchrack", "true")):
        (binaries / name).write_text(
            f"#!/bin/sh\necho {name} $*\n{script}\nexit {status if name == 'pytest' else 0}\n"
        )
        (binaries / name).chmod(0o755)
    (copy / ".venv" / ".benchrack").touch()
    run = make("inference", cwd=copy)
    assert "pytest -m inference" in run.stdout
    assert ("benchrack report --format markdown" in run.stdout) is measured
    assert (run.returncode == 0) is (status == 0)


def test_each_backend_of_the_quick_sweep_has_an_environment(
    root: Path, tox: configparser.ConfigParser
) -> None:
    quick = (root / "suites" / "sweeps" / "quick.toml").read_text("utf-8")
    for environment in _names(tox["tox"]["labels"].partition("=")[2]):
        if environment != "report":
            assert f'"{environment}"' in quick
            assert f"{environment}: BACKEND = {environment}" in _backends(tox)["set_env"]


def test_old_stacks_have_their_constraints(root: Path, tox: configparser.ConfigParser) -> None:
    constraints = _backends(tox)["constraints"].split()
    assert [Path(word).name for word in constraints[1::2]] == ["cuda12.txt", "cuda11.txt"]
    for word in constraints[1::2]:
        assert (root / word.removeprefix("{tox_root}/")).is_file()


def test_report_and_lint_need_no_framework(tox: configparser.ConfigParser) -> None:
    for name in ("report", "lint", "wheel"):
        assert "extras" not in tox[f"testenv:{name}"]


@pytest.mark.parametrize("name", ["benchmark", "ci", "old-stacks"])
def test_workflows_ask_for_environments_that_exist(
    root: Path, tox: configparser.ConfigParser, name: str
) -> None:
    yaml = pytest.importorskip("yaml", reason="reading the workflows needs PyYAML")
    workflow = yaml.safe_load((root / ".github" / "workflows" / f"{name}.yml").read_text("utf-8"))
    known = set(_environments(tox))
    for job in workflow["jobs"].values():
        assert set(job.get("strategy", {}).get("matrix", {}).get("env", [])) <= known
        for command in (step.get("run", "") for step in job["steps"]):
            asked = re.findall(r"tox run -e ([\w-]+)", command)
            assert set(asked) <= known


def test_ci_runs_the_readmes_test_command_and_lint(root: Path) -> None:
    script = root / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    assert {"make test", "make lint"} <= set(re.findall(r"make \w+", script.read_text("utf-8")))
    assert "make test" in (root / "README.md").read_text("utf-8")


def _names(text: str) -> list[str]:
    return [name for name in re.split(r"[\s,]+", text) if name]


def _backends(tox: configparser.ConfigParser) -> Any:
    (section,) = (tox[name] for name in tox.sections() if name.startswith("testenv:{"))
    return section


def _environments(tox: configparser.ConfigParser) -> list[str]:
    """The names of the environments, with those of `{a,b}{,-c}` spelt out."""
    names = []
    for section in tox.sections():
        first, *rest = re.findall(r"\{([^}]*)\}", section) or [section.removeprefix("testenv:")]
        endings = rest[0].split(",") if rest else [""]
        names += [stem + ending for stem in first.split(",") for ending in endings]
    return names
