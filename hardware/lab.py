"""A lab's own descriptors, from the folders in $BENCHRACK_HARDWARE_PATH, as a plugin.

A plugin of its own, so that a mistake in one of a lab's files leaves the built-in cards in place.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchrack.api import Accelerator, Server, hookimpl
from benchrack.hardware import descriptors


@hookimpl
def benchrack_hardware() -> Iterable[Accelerator | Server]:
    return descriptors.from_environment()
