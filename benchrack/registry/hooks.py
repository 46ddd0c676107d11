"""The hooks of Benchrack. A plugin implements any of them with `@benchrack.hookimpl`.

A plugin is a module or an object that an installed distribution names in its entry-point group
`benchrack`, or a `conftest.py` of the user's. The built-in plugins use these same hooks.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from benchrack.vocabulary.backends import Backend
from benchrack.vocabulary.datasets import Dataset
from benchrack.vocabulary.descriptors import Accelerator, Server
from benchrack.vocabulary.meters import Meter
from benchrack.vocabulary.models import Model
from benchrack.vocabulary.provenance import Provenance
from benchrack.vocabulary.scenarios import Scenario

hookspec = pluggy.HookspecMarker("benchrack")


@hookspec
def benchrack_backends() -> Iterable[Backend]:
    """Backends: frameworks at one precision, that prepare sessions."""


@hookspec
def benchrack_models() -> Iterable[Model]:
    """Models: networks with their preprocessing and their weights."""


@hookspec
def benchrack_datasets() -> Iterable[Dataset]:
    """Data sets: sources of images, split into those that calibrate and the measured ones."""


@hookspec
def benchrack_hardware() -> Iterable[Accelerator | Server]:
    """Hardware descriptors: cards, and servers that hold them, with a source for every figure."""


@hookspec
def benchrack_meters() -> Iterable[Meter]:
    """Meters: what reads power or energy beside a measurement."""


@hookspec
def benchrack_provenance() -> Iterable[Provenance]:
    """Provenance: sources of facts about machine, software and run."""


@hookspec
def benchrack_scenarios() -> Iterable[Scenario]:
    """Scenarios: questions that cases ask, with all that it takes to ask them."""
