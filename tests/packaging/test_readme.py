"""What the README shows is what runs."""

import json
import re
from pathlib import Path

import numpy as np  # noqa: F401 - once a process: pytest in pytest would load it again
import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "fp64_backend.py"

pytest_plugins = ["pytester"]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_the_backend_in_the_readme_is_the_example():
    assert EXAMPLE.read_text() in blocks("python")


def test_the_backend_of_the_readme_runs_through_the_suite(pytester, monkeypatch):
    monkeypatch.setenv("BENCHRACK_CACHE_DIR", str(pytester.path / "cache"))
    pytester.makeconftest(EXAMPLE.read_text())
    result = pytester.runpytest_subprocess(
        "-p",
        "benchrack.pytest_plugin",
        "--pyargs",
        "benchrack.suites.inference",
        "-m",
        "throughput or accuracy",
        "--models=digits-cnn",
        "--backends=pytorch-fp32,pytorch-fp64",
        "--batch-sizes=8",
        "--weights=random",
        "--set=time_limit_s=0.2",
        "--set=warmup_limit_s=0.2",
        "--set=inputs_mib=1",
    )
    result.assert_outcomes(passed=4)
    (path,) = (pytester.path / "results").glob("*.json")
    records = [b["extra_info"]["benchrack"] for b in json.loads(path.read_text())["benchmarks"]]
    (double,) = [
        r for r in records if r["backend"] == "pytorch-fp64" and r["scenario"] == "throughput"
    ]
    assert double["engine_precision"] == "fp64"
    assert double["output_max_relative_error"] < 1e-4


def test_files_that_the_readme_points_to_are_there():
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
