"""Pictures of a data set as a model's inputs: batches, and the distinct inputs of a case."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchrack import preprocessing
from benchrack.errors import CorruptImageError, DatasetError
from benchrack.types import Model, Sample, Split

DRAWS = 4  # tries a wanted input: variants of tiny pictures can be equal

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Inputs, float32 (n, C, H, W), of the pictures that could be read, and their labels; the
    names of those that could not."""

    images: np.ndarray
    labels: tuple[int | None, ...]
    unreadable: tuple[str, ...] = ()


def iterate_batches(samples: Sequence[Sample], model: Model, batch_size: int) -> Iterator[Batch]:
    """Batches in the order of the samples, one in memory at a time."""
    import numpy as np

    for start in range(0, len(samples), batch_size):
        images, labels, unreadable = [], [], []
        for sample in samples[start : start + batch_size]:
            try:
                picture = sample.read()
            except CorruptImageError:
                unreadable.append(sample.name)
                continue
            images.append(preprocessing.apply(model.preprocessing, picture, model.input_shape[0]))
            labels.append(sample.label)
        stacked = np.stack(images) if images else np.empty((0, *model.input_shape), np.float32)
        yield Batch(images=stacked, labels=tuple(labels), unreadable=tuple(unreadable))


def require_classes(split: Split, model: Model) -> None:
    """Raises DatasetError where the data's classes are not as many as the model's."""
    if split.classes is not None and split.classes != model.classes:
        raise DatasetError(
            f"{split.name} has {split.classes} classes, but {model.name} tells {model.classes} "
            "apart: choose another data set (--dataset) or other models (--models)"
        )


def input_pool(
    split: Split, model: Model, *, minimum_bytes: int, limit_bytes: int, seed: int
) -> np.ndarray:
    """Distinct inputs, float32 (N, C, H, W): at least two, and as many as `minimum_bytes` hold
    within `limit_bytes`. Pictures come first; where they do not suffice, seeded variants of them
    (70 to 100 % of the area, perhaps mirrored) follow. Raises DatasetError if none can be read."""
    import numpy as np

    each = 4 * math.prod(model.input_shape)
    wanted = max(2, min(math.ceil(minimum_bytes / each), limit_bytes // each))
    pictures = []
    for sample in split.measured[:wanted]:
        try:
            pictures.append(sample.read())
        except CorruptImageError:
            continue
    if not pictures:
        raise DatasetError(f"{split.name}: none of its pictures can be read")
    draw = np.random.default_rng(seed)
    pool: dict[bytes, np.ndarray] = {}
    for attempt in range(DRAWS * wanted):
        picture = pictures[attempt % len(pictures)]
        if attempt >= len(pictures):
            picture = _variant(picture, draw)
        made = preprocessing.apply(model.preprocessing, picture, model.input_shape[0])
        pool.setdefault(made.tobytes(), made)
        if len(pool) == wanted:
            break
    return np.stack(list(pool.values()))


def _variant(picture: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    height, width = picture.shape[:2]
    scale = math.sqrt(draw.uniform(0.7, 1.0))
    rows, columns = max(1, int(height * scale)), max(1, int(width * scale))
    top, left = draw.integers(height - rows + 1), draw.integers(width - columns + 1)
    cropped = picture[top : top + rows, left : left + columns]
    return cropped[:, ::-1] if draw.random() < 0.5 else cropped
