"""Installed packages that carry images; found without being imported."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from benchrack.api import DatasetError


def folder(package: str) -> Path:
    """Where a package is installed. Raises DatasetError where it is not."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise DatasetError(f"{package} is not installed: pip install 'benchrack[samples]'")
    return Path(spec.submodule_search_locations[0])
