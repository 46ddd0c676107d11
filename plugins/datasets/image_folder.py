"""Any labelled pictures in a folder a class; the order is shuffled by the sweep's seed."""

from __future__ import annotations

import random

from benchrack import hookimpl
from benchrack.plugins.datasets import image_files
from benchrack.types import Dataset, Settings, Split


@hookimpl
def benchrack_datasets() -> list[Dataset]:
    summary = "one's own pictures, a folder a class (folder:DIR), shuffled by the seed"
    return [
        Dataset(
            name="folder", summary=summary, open=open_folder, requires=("PIL",), extra="pytorch"
        )
    ]


def open_folder(argument: str | None, settings: Settings) -> Split:
    """Classes are numbered in the order of their folders' names. Raises DatasetError."""
    folder = image_files.existing_folder("folder", argument)
    classes = image_files.class_folders(folder)
    pictures = [(path, label) for label, paths in enumerate(classes.values()) for path in paths]
    random.Random(settings.seed).shuffle(pictures)
    return image_files.split(f"folder:{folder}", pictures, len(classes), settings)
