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
