"""The data of a run's cases: data sets are opened once, the inputs of a model made once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchrack.cache import Cache
from benchrack.data import inputs
from benchrack.machine.processors import last_level_cache_bytes
from benchrack.registry.registry import Registry
from benchrack.registry.requirements import require
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.datasets import Split, SplitRequest
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.settings import Settings

if TYPE_CHECKING:
    import numpy as np

MIB = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedData:
    """Opens and keeps what cases ask for."""

    registry: Registry
    settings: Settings
    device: Device
    cache: Cache
    _splits: dict[str, Split] = field(default_factory=dict)
    _pools: dict[tuple[object, ...], np.ndarray] = field(default_factory=dict)

    def name(self, case: Case) -> str:
        """What the case is measured on: a model that is made for one data set keeps it."""
        model = self.registry.model(case.model)
        return model.dataset if model.own_dataset or case.dataset == "auto" else case.dataset

    def split(self, case: Case) -> Split:
        """The opened data set of a case, checked against its model.

        Raises UnknownNameError, UnsupportedError where a package is missing, or DatasetError.
        """
        name = self.name(case)
        if name not in self._splits:
            kind, _, argument = name.partition(":")
            dataset = self.registry.dataset(kind)
            require(dataset, lambda: self.registry.backend(case.backend).remedy(self.device))
            wanted = SplitRequest(
                seed=self.settings.measure.seed,
                calibration_images=self.settings.calibrate.images,
            )
            self._splits[name] = dataset.open(argument or None, wanted)
        split = self._splits[name]
        inputs.require_classes(split, self.registry.model(case.model))
        return split

    def distinct_inputs(self, case: Case) -> np.ndarray:
        """Inputs of the case's model, all different, float32 (N, C, H, W): real images first, and
        as many as outgrow the last-level cache, as far as `inputs_mib` allows; as many as it allows
        where the cache's size is not known. Read-only."""
        model, settings = self.registry.model(case.model), self.settings.measure
        limit = settings.inputs_mib * MIB
        key = (self.name(case), model.input_shape, model.preprocessing)
        if key not in self._pools:
            self._pools.clear()  # one pool at a time: they are as large as a cache
            outgrown = 2 * last_level_cache_bytes() or limit
            self._pools[key] = inputs.cached_input_pool(
                self.cache,
                self.split(case),
                model,
                minimum_bytes=min(outgrown, limit),
                limit_bytes=limit,
                seed=settings.seed,
            )
        return self._pools[key]

    def measured(self, case: Case) -> Iterator[inputs.Batch]:
        """Every measured image once, in batches of the case's size."""
        images = self.split(case).measured
        limit = self.settings.measure.evaluation_images or len(images)
        model = self.registry.model(case.model)
        return inputs.iterate_batches(images[:limit], model, case.batch_size)

    def calibrating(self, case: Case) -> Iterator[np.ndarray]:
        """The images that calibrate, as batches of inputs, float32 (n, C, H, W)."""
        images, model = self.split(case).calibration, self.registry.model(case.model)
        for batch in inputs.iterate_batches(images, model, self.settings.calibrate.batch_size):
            yield batch.images
