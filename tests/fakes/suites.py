"""Runs of pytest with the laboratory for plugins: what stands in their folder, and the call.

`SuiteRun` writes a `conftest.py`, `test_suite.py` and `mine.toml` and runs pytest on them; the
fixture `suite_run` (tests/conftest.py) makes one in pytester's folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HEAD = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from fakes import laboratory as lab
from fakes.laboratory import benchrack_datasets, benchrack_models
from benchrack.api import OutOfMemoryError, hookimpl
"""
"""How a conftest.py begins that provides the laboratory's model and data set, and goes on with
backends of its own."""

TEST = """
@pytest.mark.inference
@pytest.mark.{scenario}
def test_{scenario}(case, measured):
    measured(case)
"""

SETTINGS = """
[settings]
executor = "in-process"
reference = "numpy-fp32"
time_limit_s = 0.02
warmup_limit_s = 0.02
round_s = 0.001
inputs_mib = 1
"""

# A test module may have imported the plugin, whose assertions are then not rewritten: it has none.
IMPORTED = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")


def suite(*scenarios: str) -> str:
    """The text of a test module that asks these questions."""
    return "import pytest\n" + "".join(TEST.format(scenario=scenario) for scenario in scenarios)


def sweep(**scenarios: dict[str, Any]) -> str:
    """The text of a sweep with these axes, each beside those that are left out."""
    lines = []
    for scenario, axes in scenarios.items():
        lines.append(f"[{scenario}]")
        whole = {"models": ["matrix"], "backends": ["numpy-fp32"], "batch_sizes": [1]} | axes
        lines += [f"{name} = {json.dumps(values)}" for name, values in whole.items()]
    return "\n".join(lines) + SETTINGS


class SuiteRun:
    """pytest in pytester's folder: `run(...)` in this process, `run.apart(...)` in another one.

    `plugins` is the conftest.py behind its HEAD; `scenarios` are the sweep's, with their axes.
    """

    def __init__(self, pytester: Any, plugins: str, **scenarios: dict[str, Any]):
        self.pytester, self.path = pytester, pytester.path
        self.options = ("-p", "benchrack.pytest_plugin", "--sweep=mine.toml")
        self.shown = ("--color=no",)
        pytester.makeconftest(HEAD + plugins)
        self.ask(**scenarios)

    def ask(self, **scenarios: dict[str, Any]) -> None:
        """Another sweep, and the suite for it."""
        (self.path / "test_suite.py").write_text(suite(*scenarios))
        (self.path / "mine.toml").write_text(sweep(**scenarios))

    def __call__(self, *arguments: str) -> Any:
        return self.pytester.runpytest(*self.options, *IMPORTED, *self.shown, *arguments)

    def apart(self, *arguments: str) -> Any:
        """For what would interrupt this process."""
        return self.pytester.runpytest_subprocess(*self.options, *self.shown, *arguments)
