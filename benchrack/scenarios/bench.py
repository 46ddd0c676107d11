"""What the cases of one run share in a process: plugins, cache, settings, devices, opened data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from benchrack.cache import Cache
from benchrack.data import inputs
from benchrack.energy.metering import Idle, Opened
from benchrack.errors import UnsupportedError
from benchrack.execution.progress import Progress, silent
from benchrack.machine.gauges import Gauge, gauge_of
from benchrack.machine.processors import last_level_cache_bytes, usable_cores
from benchrack.machine.surroundings import CpuTimes, cpu_times
from benchrack.registry.registry import Registry
from benchrack.timing.ranks import ALONE, Peers
from benchrack.timing.rounds import Clock
from benchrack.vocabulary.backends import Backend, PrepareRequest, Session
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.datasets import Dataset, Split
from benchrack.vocabulary.descriptors import Accelerator, match
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.meters import Domain
from benchrack.vocabulary.models import Model
from benchrack.vocabulary.settings import Settings

if TYPE_CHECKING:
    import numpy as np

MIB = 1024**2


@dataclass(slots=True)
class Bench:
    """A place to run cases. Data sets are opened once, and the distinct inputs of a model are
    decoded once, and kept in the cache.

    `footprints` are bytes by batch size, of each kind of case (see `footprint.follow`).
    """

    registry: Registry
    settings: Settings
    device: Device
    cache: Cache = field(default_factory=Cache.default)
    clock: Clock = time.perf_counter
    progress: Progress = silent
    meters: Opened = field(default_factory=Opened)
    idle: Mapping[Domain, Idle] = field(default_factory=dict)
    cpu_times: Callable[[], CpuTimes | None] = cpu_times
    peers: Peers = ALONE
    gauge: Gauge | None = field(init=False)
    footprints: dict[tuple[object, ...], dict[int, int]] = field(default_factory=dict)
    _splits: dict[str, Split] = field(default_factory=dict)
    _pools: dict[tuple[object, ...], np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gauge = gauge_of(self.device)

    @property
    def card(self) -> Accelerator | None:
        """The descriptor of the device, as `machines.match` finds it."""
        device, known = self.device, tuple(self.registry.accelerators.values())
        return match(device.name, device.pci_id, known, mig=device.mig)[0]

    def unsupported(self, case: Case) -> str | None:
        """Why the case's backend can't run on the device, or None."""
        backend = self.registry.backend(case.backend)
        require(backend, lambda: backend.remedy(self.device))
        return backend.unsupported(self.device)

    @property
    def threads(self) -> int:
        return self.settings.threads or usable_cores()

    def dataset_name(self, case: Case) -> str:
        """What the case is measured on: a model that is made for one data set keeps it."""
        model = self.registry.model(case.model)
        return model.dataset if model.own_dataset or case.dataset == "auto" else case.dataset

    def split(self, case: Case) -> Split:
        """The opened data set of a case, checked against its model.

        Raises UnknownNameError, UnsupportedError where a package is missing, or DatasetError.
        """
        name = self.dataset_name(case)
        if name not in self._splits:
            kind, _, argument = name.partition(":")
            dataset = self.registry.dataset(kind)
            require(dataset, lambda: self.registry.backend(case.backend).remedy(self.device))
            self._splits[name] = dataset.open(argument or None, self.settings)
        split = self._splits[name]
        inputs.require_classes(split, self.registry.model(case.model))
        return split

    def distinct_inputs(self, case: Case) -> np.ndarray:
        """Inputs of the case's model, all different, float32 (N, C, H, W): real pictures first, and
        as many as outgrow the last-level cache, as far as `inputs_mib` allows; as many as it allows
        where the cache's size is not known. Read-only."""
        model = self.registry.model(case.model)
        limit = self.settings.inputs_mib * MIB
        key = (self.dataset_name(case), model.input_shape, model.preprocessing)
        if key not in self._pools:
            self._pools.clear()  # one pool at a time: they are as large as a cache
            outgrown = 2 * last_level_cache_bytes() or limit
            self._pools[key] = inputs.cached_input_pool(
                self.cache,
                self.split(case),
                model,
                minimum_bytes=min(outgrown, limit),
                limit_bytes=limit,
                seed=self.settings.seed,
            )
        return self._pools[key]

    def prepare(self, case: Case, backend: Backend | None = None) -> Session:
        """A session of the case's model, on its backend or on another.

        Raises UnsupportedError, WeightsError, CacheError, DatasetError or OutOfMemoryError.
        """
        backend = backend or self.registry.backend(case.backend)
        model = self.registry.model(case.model)
        require(backend, lambda: backend.remedy(self.device))
        require(model, lambda: backend.remedy(self.device))  # which brings models too
        split = self.split(case)
        pictures = len(split.calibration)
        return backend.prepare(
            PrepareRequest(
                model=model,
                weights=case.weights,
                device=self.device,
                batch_size=case.batch_size,
                threads=self.threads,
                seed=self.settings.seed,
                cache=self.cache,
                calibration=lambda: self._calibration_batches(split, model),
                calibration_digest=split.digest if pictures else None,
                calibration_images=pictures,
            )
        )

    def _calibration_batches(self, split: Split, model: Model) -> Iterator[np.ndarray]:
        size = self.settings.calibration_batch_size
        for batch in inputs.iterate_batches(split.calibration, model, size):
            yield batch.images


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
