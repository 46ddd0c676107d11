"""The entry point that pytest loads in every run: it brings in Benchrack's plugin only for
Benchrack's own runs, so that installing Benchrack changes nobody else's options.

A run is Benchrack's if it names `benchrack.suites` or a file in it, or starts inside a checkout.
Elsewhere `-p benchrack.pytest_plugin` loads the plugin.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

SUITES = "benchrack.suites"


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    config = pluginmanager.get_plugin("pytestconfig")
    if config is None:
        return
    call = config.invocation_params
    if concerns_benchrack([str(arg) for arg in call.args], call.dir):
        pluginmanager.import_plugin("benchrack.pytest_plugin.plugin")


def concerns_benchrack(arguments: Iterable[str], directory: Path) -> bool:
    """Whether a call of pytest with these arguments, from this folder, runs Benchrack's suites."""
    home = Path(__file__).resolve().parents[2]
    checkout = home if (home / "suites").is_dir() and (home / "pyproject.toml").is_file() else None
    if checkout and directory.resolve().is_relative_to(checkout):
        return True
    inside = checkout or Path(__file__).resolve().parents[1] / "suites"
    return any(
        argument.startswith(SUITES) or _lies_in(directory / argument.split("::")[0], inside)
        for argument in arguments
        if not argument.startswith("-")
    )


def _lies_in(path: Path, folder: Path) -> bool:
    try:
        return path.exists() and path.resolve().is_relative_to(folder)
    except OSError:  # an argument too long for a file name, such as a long -k expression
        return False
