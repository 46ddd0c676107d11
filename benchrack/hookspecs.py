"""The hooks of Benchrack. A plugin implements any of them with `@benchrack.hookimpl`.

A plugin is a module or an object that an installed distribution names in its entry-point group
`benchrack`, or a `conftest.py` of the user's. The built-in plugins use these same hooks.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from benchrack.machines import Accelerator, Server
from benchrack.types import Backend, Dataset, Model

hookspec = pluggy.HookspecMarker("benchrack")


@hookspec
def benchrack_backends() -> Iterable[Backend]:
    """Backends: frameworks at one precision, that prepare sessions."""


@hookspec
def benchrack_models() -> Iterable[Model]:
    """Models: networks with their preprocessing and their weights."""


@hookspec
def benchrack_datasets() -> Iterable[Dataset]:
    """Data sets: sources of pictures, split into those that calibrate and the measured ones."""


@hookspec
def benchrack_hardware() -> Iterable[Accelerator | Server]:
    """Hardware descriptors: cards, and servers that hold them, with a source for every figure."""
