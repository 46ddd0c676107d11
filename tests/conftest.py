"""What all tests share: the fakes (`from fakes import nvml`), and NVML that is one of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def fake_nvml(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """`fake_nvml(machine)` puts a fake `pynvml` for a machine of fakes/nvml.py in its place."""
    from fakes import nvml

    def install(machine: nvml.Machine) -> Any:
        module = nvml.module(machine)
        monkeypatch.setitem(sys.modules, "pynvml", module)
        return module

    return install


@pytest.fixture
def suite_run(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """`suite_run(plugins, throughput={…})` is a run of pytest on fakes in a folder of its own; see
    fakes/suites.py. Only for modules that have the plugin `pytester`."""
    from fakes import suites

    def prepared(plugins: str, **scenarios: dict[str, Any]) -> suites.SuiteRun:
        pytester = request.getfixturevalue("pytester")
        monkeypatch.setenv("BENCHRACK_CACHE_DIR", str(pytester.path / "cache"))
        return suites.SuiteRun(pytester, plugins, **scenarios)

    return prepared
