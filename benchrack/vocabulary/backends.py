"""Frameworks at one precision, the sessions that they prepare, and what computes in them.

Arrays are numpy arrays; shapes are given as (N, C, H, W) = (batch, channels, height, width).
Nothing here imports numpy or a framework: annotations only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.models import LoadedModel, Model

if TYPE_CHECKING:
    import numpy as np

    from benchrack.cache import Cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What really computes a session, as the framework reports it after preparing.

    `precision` is the arithmetic that runs; `deviations` says in words where engine or arithmetic
    are not what was asked (empty: as asked). `low_precision_nodes` of `compute_nodes` convolutions
    and matrix products run in the asked arithmetic. `provider_share` lists `provider=share`.
    `build` are short facts about what was built and loaded, such as `cuDNN 9.10.2` or `OpenMP 2
    threads`: the same each time that the same software runs on the same machine.
    """

    name: str
    version: str
    device: str
    precision: str
    threads: int | None = None
    instruction_set: str | None = None
    compute_nodes: int | None = None
    low_precision_nodes: int | None = None
    provider_share: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    build: tuple[str, ...] = ()


class Session(Protocol):
    """A model made ready by a backend on a device.

    `run` may return before the device has finished; `synchronize` returns when it has.
    """

    engine: Engine
    loaded: LoadedModel

    def place(self, images: np.ndarray) -> Any:
        """Copy a batch, float32 (N, C, H, W), to where the device reads it."""

    def run(self, placed: Any) -> Any:
        """Start one batch and return its output, still on the device."""

    def synchronize(self) -> None:
        """Wait until everything that was started is done."""

    def fetch(self, output: Any) -> np.ndarray:
        """Copy an output to the host: logits, float32 (N, classes)."""

    def close(self) -> None:
        """Give back the memory of model and device."""


class TrainingSession(Protocol):
    """A model made ready by a backend to be trained on a device, with its optimiser.

    `step` may return before the device has finished; `synchronize` returns when it has.
    """

    engine: Engine
    loaded: LoadedModel

    def place(self, images: np.ndarray, labels: np.ndarray) -> Any:
        """Copy a batch, float32 (N, C, H, W) and int64 (N,), to where the device reads it."""

    def step(self, placed: Any) -> Any:
        """Start one step (forward, backward, update) and return its loss, still on the device."""

    def synchronize(self) -> None:
        """Wait until everything that was started is done."""

    def fetch(self, loss: Any) -> float:
        """Copy a step's loss to the host."""

    def close(self) -> None:
        """Give back the memory of model, optimiser and device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRequest:
    """What a backend gets to prepare a session.

    `calibration()` yields batches, float32 (N, C, H, W), of the split's calibration images, made
    for this model; `calibration_digest` identifies them, and is None where there are none.
    """

    model: Model
    weights: str
    device: Device
    batch_size: int
    threads: int
    seed: int
    cache: Cache
    calibration: Callable[[], Iterator[np.ndarray]]
    calibration_digest: str | None = None
    calibration_images: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A framework at one precision.

    `requires` are the modules that must be importable, `extra` the extra of Benchrack that brings
    them. A backend that can train has `prepare_training` too, which raises the same.
    `unsupported(device)` gives the reason why it can't run there, or None; `prepare` raises
    UnsupportedError, WeightsError or OutOfMemoryError. `runs_as(device)` says in a few words which
    engine and arithmetic to expect there, as far as that is known before a session is prepared.
    `falls_back(device)` is the deviation that its sessions will have there, or None, and
    `emulates(device)` that deviation where it is a slow emulation: it is skipped unless the user
    asks for it. `remedy(device)` is the command that installs the modules where the extra's would
    not serve the device, or None; it is asked while they are missing.
    """

    name: str
    framework: str
    precision: str
    summary: str
    prepare: Callable[[PrepareRequest], Session]
    prepare_training: Callable[[PrepareRequest], TrainingSession] | None = None
    unsupported: Callable[[Device], str | None] = lambda device: None
    runs_as: Callable[[Device], str] = lambda device: ""
    falls_back: Callable[[Device], str | None] = lambda device: None
    emulates: Callable[[Device], str | None] = lambda device: None
    remedy: Callable[[Device], str | None] = lambda device: None
    requires: tuple[str, ...] = ()
    extra: str = ""
