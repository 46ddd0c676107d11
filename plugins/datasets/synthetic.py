"""Random images: for speed alone, since they have no labels."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from benchrack.api import Dataset, Sample, Split, SplitRequest, hookimpl
from benchrack.plugins.datasets import arguments, pictures

if TYPE_CHECKING:
    import numpy as np

NAME = "synthetic"
SIDE = 256
MEASURED = 50_000  # as many as ImageNet has to validate


def open_synthetic(argument: str | None, request: SplitRequest) -> Split:
    """50,000 images are measured, others calibrate. They are drawn from the run's seed."""
    arguments.none(NAME, argument)
    calibrating = request.calibration_images
    samples = RandomPictures(request.seed, range(calibrating + MEASURED))
    digest = hashlib.sha256(f"{NAME} {request.seed} {calibrating}".encode()).hexdigest()
    return pictures.parted(NAME, samples, None, calibrating, digest)


@dataclass(frozen=True, slots=True)
class RandomPictures(Sequence[Sample]):
    """The random images of some numbers, uint8 (256, 256, 3); each is drawn when it is read."""

    seed: int
    numbers: range

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> RandomPictures: ...
    def __getitem__(self, index: int | slice) -> Sample | RandomPictures:
        if isinstance(index, slice):
            return RandomPictures(self.seed, self.numbers[index])
        number = self.numbers[index]
        read = functools.partial(_draw, self.seed, number)
        return Sample(name=f"random-{number}", label=None, read=read)


def _draw(seed: int, number: int) -> np.ndarray:
    import numpy as np

    rng = np.random.default_rng([seed, number])
    return rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)


@hookimpl
def benchrack_datasets() -> list[Dataset]:
    about = "seeded random images, all different, without labels"
    needs = ("numpy", "PIL")
    return [Dataset(name=NAME, summary=about, open=open_synthetic, requires=needs, extra="pytorch")]
