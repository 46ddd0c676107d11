"""The descriptors that come with Benchrack, as a plugin."""

from __future__ import annotations

from collections.abc import Iterable

from benchrack.api import Accelerator, Server, hookimpl
from benchrack.hardware import descriptors


@hookimpl
def benchrack_hardware() -> Iterable[Accelerator | Server]:
    return descriptors.built_in()
