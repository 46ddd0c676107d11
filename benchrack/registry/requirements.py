"""What plugins need that is not installed or not in a device, and the command that helps."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from benchrack.errors import UnsupportedError
from benchrack.vocabulary.backends import Backend
from benchrack.vocabulary.datasets import Dataset
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.models import Model


def require(
    provided: Backend | Model | Dataset, remedy: Callable[[], str | None] = lambda: None
) -> None:
    """Raises UnsupportedError, with the command that helps, where a needed module is missing."""
    if lacking := lack(provided, remedy):
        raise UnsupportedError(f"{provided.name} {lacking}")


def lack(
    provided: Backend | Model | Dataset, remedy: Callable[[], str | None] = lambda: None
) -> str | None:
    """`needs MODULES: COMMAND`, of modules that are missing, or None. `remedy()` is the command
    that helps where the extra's would not serve the device, or None."""
    absent = missing(provided)
    if not absent:
        return None
    extra = f"pip install 'benchrack[{provided.extra}]'" if provided.extra else "install it"
    return f"needs {', '.join(absent)}: {remedy() or extra}"


def missing(provided: Backend | Model | Dataset) -> tuple[str, ...]:
    """The modules that it needs and that are not installed."""
    return tuple(name for name in provided.requires if not _importable(name))


def _importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # the package of a submodule is absent, or broken
        return False


def only_emulates(backend: Backend, device: Device) -> str | None:
    """Why a device would only emulate a backend's precision, and what measures it all the same."""
    reason = backend.emulates(device)
    return f"{reason} (--set emulated=true measures it all the same)" if reason else None
