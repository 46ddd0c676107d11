"""The descriptors that come with Benchrack, as a plugin."""

from __future__ import annotations

from collections.abc import Iterable

from benchrack import hookimpl
from benchrack.hardware import descriptors
from benchrack.vocabulary.descriptors import Accelerator, Server


@hookimpl
def benchrack_hardware() -> Iterable[Accelerator | Server]:
    return descriptors.built_in()
