"""Any labelled images in one folder a class."""

from __future__ import annotations

import random

from benchrack.api import Dataset, DatasetError, Split, SplitRequest, hookimpl
from benchrack.plugins.datasets import arguments, pictures
from benchrack.plugins.datasets.pictures import Picture, listed

NAME = "folder"


def open_folder(argument: str | None, request: SplitRequest) -> Split:
    """Classes are numbered from 0 by the folders' names. Raises DatasetError."""
    root = arguments.folder(NAME, argument)
    if loose := pictures.files(root):
        raise DatasetError(
            f"{root} has images without a class: {listed(p.name for p in loose)}. "
            "Each must be in its class's folder"
        )
    folders = pictures.folders(root)
    if not folders:
        raise DatasetError(f"{root} is empty: one folder a class, with images, is expected")
    found = {folder: pictures.files(folder) for folder in folders}
    if empty := [folder.name for folder, files in found.items() if not files]:
        raise DatasetError(
            f"no images ({', '.join(pictures.SUFFIXES)}) in {listed(empty)} below {root}. Each "
            "folder is a class, and leaving one out would number the others differently"
        )
    samples = [
        Picture(path=file, name=f"{folder.name}/{file.name}", label=index)
        for index, (folder, files) in enumerate(found.items())
        for file in files
    ]
    random.Random(request.seed).shuffle(samples)
    name = f"{NAME}:{root.name}"
    return pictures.split(name, samples, len(folders), request.calibration_images)


@hookimpl
def benchrack_datasets() -> list[Dataset]:
    about = "folder:DIR, labelled images in one folder a class, shuffled by the seed"
    needs = ("PIL", "numpy")
    return [Dataset(name=NAME, summary=about, open=open_folder, requires=needs, extra="pytorch")]
