"""Images of a data set as inputs of a model: in batches, or all different to measure speed."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from benchrack.cache import Cache
from benchrack.data import preprocessing
from benchrack.errors import CorruptImageError, DatasetError
from benchrack.machine.processors import usable_cores
from benchrack.vocabulary.datasets import Sample, Split
from benchrack.vocabulary.models import Model

if TYPE_CHECKING:
    import numpy as np

READ_AHEAD = 64  # images that are read at once, by all cores
DRAWS = 4  # tries a wanted input: variants of tiny images can be equal
RECIPE = 1  # of a pool: to be raised when the same images and seed give other inputs

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Inputs, float32 (n, C, H, W), of the images that could be read, and their labels; the
    names of those that could not."""

    images: np.ndarray
    labels: tuple[int | None, ...]
    unreadable: tuple[str, ...] = ()


def iterate_batches(samples: Sequence[Sample], model: Model, batch_size: int) -> Iterator[Batch]:
    """Batches in the order of the samples, a few images at a time in memory.

    All but the last have `batch_size` inputs: an image that can't be read is named in the batch
    where it would have been, and the next one takes its place. A batch is without inputs only
    where no image at all can be read. Nothing is read in the background between two batches.
    """
    inputs: list[np.ndarray] = []
    labels: list[int | None] = []
    unreadable: list[str] = []

    def batch() -> Batch:
        made = _stacked(inputs, model)
        whole = Batch(images=made, labels=tuple(labels), unreadable=tuple(unreadable))
        for gathered in (inputs, labels, unreadable):
            gathered.clear()
        return whole

    for sample, made in _in_threads(functools.partial(_read, model), samples):
        if made is None:
            unreadable.append(sample.name)
            continue
        if len(inputs) == batch_size:
            yield batch()
        inputs.append(made)
        labels.append(sample.label)
    if inputs or unreadable:
        yield batch()


def read_images(
    samples: Sequence[Sample], model: Model
) -> tuple[np.ndarray, list[int | None], tuple[str, ...]]:
    """All samples as inputs, float32 (N, C, H, W), with their labels; the names of those that
    can't be read."""
    for batch in iterate_batches(samples, model, max(1, len(samples))):
        return batch.images, list(batch.labels), batch.unreadable
    return _stacked([], model), [], ()


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
    within `limit_bytes`.

    The measured images come first; where they do not suffice, seeded variants of them (70 to
    100 % of the area, perhaps mirrored) follow, as long as new ones are found. Raises DatasetError
    where no image can be read, or all are the same.
    """
    each = 4 * math.prod(model.input_shape)
    wanted = max(2, min(math.ceil(minimum_bytes / each), limit_bytes // each))
    readable: list[Sample] = []
    pool: dict[bytes, np.ndarray] = {}
    for sample, made in _in_threads(functools.partial(_read, model), split.measured):
        if made is not None:
            readable.append(sample)
            pool.setdefault(_digest(made), made)
        if len(pool) == wanted:
            return _stacked(list(pool.values()), model)
    if not readable:
        raise DatasetError(f"{split.name}: none of its {len(split.measured)} images can be read")
    draws = ((readable[n % len(readable)], (seed, n)) for n in range(DRAWS * wanted))
    for made in _in_threads(functools.partial(_variant, model), draws):
        pool.setdefault(_digest(made), made)
        if len(pool) == wanted:
            break
    if len(pool) < 2:
        raise DatasetError(
            f"{split.name}: its images and all parts of them are the same ({readable[0].name}), "
            "and a speed must be measured with inputs that differ"
        )
    return _stacked(list(pool.values()), model)


def cached_input_pool(
    cache: Cache, split: Split, model: Model, *, minimum_bytes: int, limit_bytes: int, seed: int
) -> np.ndarray:
    """The same pool, read-only and memory-mapped: it is decoded once for all processes and runs.

    Raises what `input_pool` does, and CacheError where there is no room for it.
    """
    import numpy as np

    def save(folder: Path) -> None:
        pool = input_pool(
            split, model, minimum_bytes=minimum_bytes, limit_bytes=limit_bytes, seed=seed
        )
        np.save(folder / "inputs.npy", pool)

    key = {
        "data": split.digest,
        "input_shape": list(model.input_shape),
        "preprocessing": dataclasses.asdict(model.preprocessing),
        "minimum_bytes": minimum_bytes,
        "limit_bytes": limit_bytes,
        "seed": seed,
        "recipe": RECIPE,
        "pillow": version("pillow"),
        "numpy": version("numpy"),
    }
    folder = cache.get("inputs", key, save)
    pool: np.ndarray = np.load(folder / "inputs.npy", mmap_mode="r")
    return pool


def _read(model: Model, sample: Sample) -> tuple[Sample, np.ndarray | None]:
    try:
        picture = sample.read()
    except CorruptImageError:
        return sample, None
    return sample, preprocessing.apply(model.preprocessing, picture, model.input_shape[0])


def _variant(model: Model, draw: tuple[Sample, tuple[int, int]]) -> np.ndarray:
    import numpy as np

    sample, seed = draw
    picture, rng = sample.read(), np.random.default_rng(seed)
    height, width = picture.shape[:2]
    scale = math.sqrt(rng.uniform(0.7, 1.0))
    rows, columns = max(1, int(height * scale)), max(1, int(width * scale))
    top, left = rng.integers(height - rows + 1), rng.integers(width - columns + 1)
    part = picture[top : top + rows, left : left + columns]
    if rng.random() < 0.5:
        part = part[:, ::-1]
    return preprocessing.apply(model.preprocessing, part, model.input_shape[0])


def _in_threads(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The function's results in order, READ_AHEAD computed at once: decoding and resizing release
    Python's lock. No thread works while the caller holds a result."""
    from concurrent.futures import ThreadPoolExecutor

    remaining = iter(items)
    with ThreadPoolExecutor(usable_cores()) as threads:
        while chunk := list(itertools.islice(remaining, READ_AHEAD)):
            yield from list(threads.map(function, chunk))


def _stacked(inputs: list[np.ndarray], model: Model) -> np.ndarray:
    import numpy as np

    return np.stack(inputs) if inputs else np.empty((0, *model.input_shape), np.float32)


def _digest(made: np.ndarray) -> bytes:
    return hashlib.sha256(made.data).digest()
