"""Sources of images, and how they are split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One image. `read()` returns uint8, (H, W, 3) or (H, W), or raises CorruptImageError.

    Several threads read at once, each another image.
    """

    name: str
    label: int | None
    read: Callable[[], np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """An opened data set: images that calibrate, and the others, which are measured.

    `classes` is None where there are no labels. `digest` identifies content and order, so that
    what was calibrated on it can be cached.
    """

    name: str
    classes: int | None
    calibration: Sequence[Sample]
    measured: Sequence[Sample]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRequest:
    """How images are to be split: so many of them calibrate, and `seed` says which."""

    seed: int
    calibration_images: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A source of images. `open(argument, request)` gets what follows the colon in
    `name:argument`, or None; it raises DatasetError before anything is measured."""

    name: str
    summary: str
    open: Callable[[str | None, SplitRequest], Split]
    requires: tuple[str, ...] = ()
    extra: str = "samples"
