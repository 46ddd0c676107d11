"""The project's own benchmarks go with the code they measure; `make lint` checks their types."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_finds_all_that_it_imports(path, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    assert "main" in runpy.run_path(str(path), run_name="benchmark")
