"""ILSVRC2012's validation images, as class folders or flat with a file of labels.

Both layouts are ordered by file name, so that they give the same split. The names are numbered
at random with regard to the classes, so the images that calibrate are of many classes.
"""

from __future__ import annotations

from pathlib import Path

from benchrack.api import Dataset, DatasetError, Split, SplitRequest, hookimpl
from benchrack.plugins.datasets import arguments, imagenet_labels, pictures
from benchrack.plugins.datasets.imagenet_labels import WORDNET_ID
from benchrack.plugins.datasets.pictures import Picture, listed

NAME = "imagenet"


def open_imagenet(argument: str | None, request: SplitRequest) -> Split:
    """The first `calibration_batches` × `calibration_batch_size` images calibrate, all others are
    measured. Raises DatasetError."""
    folder = arguments.folder(NAME, argument)
    loose = pictures.files(folder)
    folders = pictures.folders(folder)
    class_folders = [f for f in folders if WORDNET_ID.fullmatch(f.name)]
    if class_folders:
        for other in set(folders) - set(class_folders):
            loose += pictures.files(other)
        if loose:
            names = listed(sorted(path.relative_to(folder) for path in loose))
            raise DatasetError(
                f"{folder} has class folders, and images without a class: {names}. Each must be "
                "in the folder of its class"
            )
        found, classes = _from_class_folders(folder, class_folders)
    elif loose:
        found, classes = _from_label_file(folder, loose)
    else:
        raise DatasetError(_nothing(folder))
    found.sort(key=lambda picture: (picture.name, picture.path))
    return pictures.split(NAME, found, classes, request.calibration_images)


def _from_class_folders(folder: Path, class_folders: list[Path]) -> tuple[list[Picture], int]:
    index = imagenet_labels.indices(folder, [f.name for f in class_folders])
    found = [
        Picture(path=path, name=path.name, label=index[class_folder.name])
        for class_folder in class_folders
        for path in pictures.files(class_folder)
    ]
    if not found:
        raise DatasetError(f"the {len(class_folders)} class folders in {folder} hold no images")
    if all(picture.name.startswith(f"{picture.path.parent.name}_") for picture in found):
        raise DatasetError(
            f"{folder} holds training images, whose names begin with their class "
            f"({found[0].name}): ordered by name, whole classes would calibrate. Use "
            f"--dataset=folder:{folder}, which shuffles"
        )
    return found, len(index)


def _from_label_file(folder: Path, files: list[Path]) -> tuple[list[Picture], int]:
    labels = imagenet_labels.find(folder)
    if unlabelled := [path.name for path in files if path.stem not in labels.by_stem]:
        raise DatasetError(
            f"{labels.source} has no label for {listed(unlabelled)}, of {len(files)} images in "
            f"{folder}"
        )
    there = {path.stem for path in files}
    if missing := [stem for stem in labels.by_stem if stem not in there]:
        raise DatasetError(
            f"{labels.source} names {len(labels.by_stem)} images, but {folder} lacks "
            f"{listed(missing)}. Put them there, or take their lines out of a copy of the file"
        )
    found = [Picture(path=p, name=p.name, label=labels.by_stem[p.stem]) for p in files]
    return found, labels.classes


def _nothing(folder: Path) -> str:
    there = [path.name for path in pictures.folders(folder)]
    if not there:
        return f"{folder} holds no images ({', '.join(pictures.SUFFIXES)})"
    near = "val" if "val" in there else there[0]
    return (
        f"{folder} holds neither images nor folders named by WordNet ids (n01440764), but the "
        f"folders {listed(there)}: --dataset={NAME}:{folder / near}, or, for other classes, "
        "--dataset=folder:DIR"
    )


@hookimpl
def benchrack_datasets() -> list[Dataset]:
    about = "imagenet:DIR, the validation images of ILSVRC2012"
    needs = ("PIL", "numpy")
    return [Dataset(name=NAME, summary=about, open=open_imagenet, requires=needs, extra="pytorch")]
