"""Twenty labelled photos of ImageNet classes that the foolbox package carries.

They tell no precisions apart by top-1 alone; agreement with FP32 and the cosine of the logits do.
"""

from __future__ import annotations

import re

from benchrack.api import Dataset, DatasetError, Split, SplitRequest, hookimpl
from benchrack.plugins.datasets import arguments, packages, pictures
from benchrack.plugins.datasets.pictures import Picture

NAME = "sample-photos"
CLASSES = 1000
CALIBRATING = 5
# imagenet_<number>_<class>.jpg; the class is the index among ImageNet-1k's
FILE = re.compile(r"imagenet_\d+_(\d+)\.jpg")


def open_photos(argument: str | None, request: SplitRequest) -> Split:
    """5 photos calibrate and 15 are measured; all 20 with `calibration_batches=0`."""
    arguments.none(NAME, argument)
    data = packages.folder("foolbox") / "data"
    photos = [
        Picture(path=path, name=path.name, label=int(match.group(1)))
        for path in (pictures.files(data) if data.is_dir() else ())
        if (match := FILE.fullmatch(path.name))
    ]
    if not photos:
        raise DatasetError(
            f"this version of foolbox carries no photos in {data}: pip install 'foolbox>=3.3.4'"
        )
    calibrating = min(CALIBRATING, request.calibration_images)
    return pictures.split(NAME, photos, CLASSES, calibrating)


@hookimpl
def benchrack_datasets() -> list[Dataset]:
    about = "20 labelled photos of ImageNet classes, from the foolbox package"
    needs = ("foolbox", "PIL", "numpy")
    return [Dataset(name=NAME, summary=about, open=open_photos, requires=needs)]
