"""Labelled image files: reading one, and splitting many."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchrack.api import CorruptImageError, DatasetError, Sample, Split

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".ppm", ".tif", ".tiff")
EIGHT_BIT_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A file, the name that it goes by in results, and its class."""

    path: Path
    name: str
    label: int


def read(path: Path) -> np.ndarray:
    """The image in a file, uint8 (H, W, 3). Raises CorruptImageError with the file's name."""
    import numpy as np
    from PIL import Image

    try:
        with Image.open(path) as image:
            if image.mode not in EIGHT_BIT_MODES:
                raise ValueError(f"its mode {image.mode} has more than 8 bits a channel")
            return np.asarray(_rgb(image))
    except FileNotFoundError as error:
        raise CorruptImageError(f"{path} is missing") from error
    except MemoryError:
        raise
    except Exception as error:  # a damaged file can make a decoder stumble over anything
        raise CorruptImageError(f"{path} can't be decoded: {error}") from error


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in ("P", "PA"):  # a palette may hold transparency, which RGB alone can't take
        image = image.convert("RGBA")
    return image.convert("RGB")


def files(folder: Path) -> list[Path]:
    """The image files (by suffix) directly in a folder, by name, without hidden ones."""
    return [
        path
        for path, is_folder in _visible(folder)
        if path.suffix.lower() in SUFFIXES and not is_folder
    ]


def folders(folder: Path) -> list[Path]:
    """The folders directly in a folder, by name, without hidden ones."""
    return [path for path, is_folder in _visible(folder) if is_folder]


def _visible(folder: Path) -> list[tuple[Path, bool]]:
    """What is in a folder, by name, and whether it is a folder: without a call for each file."""
    try:
        with os.scandir(folder) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
        visible.sort(key=lambda entry: entry.name)
        return [(Path(entry.path), entry.is_dir()) for entry in visible]
    except OSError as error:
        raise DatasetError(f"{folder} can't be read: {error.strerror}") from error


def split(name: str, pictures: Sequence[Picture], classes: int, calibrating: int) -> Split:
    """The first `calibrating` images calibrate, all others are measured.

    The digest is made of each file's name, label, size and time of modification, and of where
    the split is: reading 50,000 files to hash them would take minutes. Raises DatasetError where
    none would be left to measure.
    """
    if calibrating >= len(pictures):
        raise DatasetError(
            f"{name} has {len(pictures)} images, and {calibrating} are to calibrate: none is "
            "left to measure. Set fewer aside: --set calibration_batches=N, batches of "
            "--set calibration_batch_size=N images"
        )
    samples = [
        Sample(name=p.name, label=p.label, read=functools.partial(read, p.path)) for p in pictures
    ]
    return parted(name, samples, classes, calibrating, _digest(pictures, calibrating))


def parted(
    name: str, samples: Sequence[Sample], classes: int | None, calibrating: int, digest: str
) -> Split:
    """The first samples, so many as that, calibrate; all others are measured."""
    return Split(
        name=name,
        classes=classes,
        calibration=samples[:calibrating],
        measured=samples[calibrating:],
        digest=digest,
    )


def _digest(pictures: Iterable[Picture], calibrating: int) -> str:
    result = hashlib.sha256(f"{calibrating}\n".encode())
    for picture in pictures:
        try:
            status = picture.path.stat()
            state = f"{status.st_size} {status.st_mtime_ns}"
        except FileNotFoundError:  # a dangling link: reading it will say so, and it is counted
            state = "missing"
        result.update(f"{picture.name}\0{picture.label} {state}\n".encode())
    return result.hexdigest()


def listed(names: Iterable[object], shown: int = 3) -> str:
    """The first few names and how many there are beyond, for a message."""
    names = iter(names)
    first = ", ".join(str(name) for name in itertools.islice(names, shown))
    more = sum(1 for _ in names)
    return f"{first} and {more} more" if more else first
