"""What a scenario measures with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benchrack.bench.footprint import Memory
from benchrack.cache import Cache
from benchrack.data.opened import OpenedData
from benchrack.data.reference import Reference
from benchrack.energy.metering import Metering
from benchrack.machine.processors import usable_cores
from benchrack.machine.surroundings import CpuTimes, cpu_times
from benchrack.registry.registry import Registry
from benchrack.registry.requirements import require
from benchrack.timing.ranks import ALONE, Ranks
from benchrack.timing.rounds import Clock
from benchrack.vocabulary.backends import Backend, PrepareRequest, Session
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.descriptors import Accelerator, match
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.progress import Progress, silent
from benchrack.vocabulary.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """All that a run fixes in one process, and what one case is told to: `progress(phase)`.

    `clock` is what is timed with; `ranks` are the processes that run the case together; `cpu_times`
    reads what the CPUs did. Opened data, memory's footprints and meters are kept from case to case.
    """

    registry: Registry
    settings: Settings
    device: Device
    cache: Cache
    data: OpenedData
    memory: Memory
    metering: Metering = field(default_factory=Metering)
    clock: Clock = time.perf_counter
    ranks: Ranks = ALONE
    cpu_times: Callable[[], CpuTimes | None] = cpu_times
    progress: Progress = silent

    @classmethod
    def on(
        cls,
        device: Device,
        registry: Registry,
        settings: Settings,
        cache: Cache | None = None,
        *,
        metering: Metering | None = None,
        ranks: Ranks = ALONE,
    ) -> Bench:
        """A bench on a device, with nothing opened yet."""
        cache = cache or Cache.default()
        return cls(
            registry=registry,
            settings=settings,
            device=device,
            cache=cache,
            data=OpenedData(registry=registry, settings=settings, device=device, cache=cache),
            memory=Memory.of(device),
            metering=metering or Metering(),
            ranks=ranks,
        )

    @property
    def card(self) -> Accelerator | None:
        """The descriptor of the device, as `descriptors.match` finds it."""
        device, known = self.device, tuple(self.registry.accelerators.values())
        return match(device.name, device.pci_id, known, mig=device.mig)[0]

    @property
    def threads(self) -> int:
        """How many threads compute on the CPU."""
        return self.settings.measure.threads or usable_cores()

    def prepare(self, case: Case, backend: Backend | None = None) -> Session:
        """A session of the case's model, on its backend or on another.

        Raises UnsupportedError, WeightsError, CacheError, DatasetError or OutOfMemoryError.
        """
        backend = backend or self.registry.backend(case.backend)
        return backend.prepare(self.request(case, backend))

    def request(self, case: Case, backend: Backend) -> PrepareRequest:
        """What a backend is asked to prepare. Raises UnsupportedError for a missing package."""
        model = self.registry.model(case.model)
        require(backend, lambda: backend.remedy(self.device))
        require(model, lambda: backend.remedy(self.device))  # which brings models too
        split = self.data.split(case)
        images = len(split.calibration)
        return PrepareRequest(
            model=model,
            weights=case.weights,
            device=self.device,
            batch_size=case.batch_size,
            threads=self.threads,
            seed=self.settings.measure.seed,
            cache=self.cache,
            calibration=lambda: self.data.calibrating(case),
            calibration_digest=split.digest if images else None,
            calibration_images=images,
        )

    def reference(self, case: Case) -> Reference:
        """The backend that a case's outputs are compared with."""
        backend = self.registry.backend(self.settings.measure.reference)
        return Reference(
            backend=backend,
            device=self.device,
            model=case.model,
            prepare=lambda: self.prepare(case, backend),
            cache=self.cache,
        )
