"""ImageNet's classes: their order, and the files that label the validation images.

Models number the 1,000 classes by their sorted WordNet ids (n01440764 is 0). The devkit of
ILSVRC2012 numbers them 1 to 1,000 in an order of its own (its ILSVRC2012_ID 1 is n02119789), which
has to be translated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from benchrack.api import DatasetError
from benchrack.plugins.datasets import pictures
from benchrack.plugins.datasets.pictures import listed

CLASSES = 1000
WORDNET_ID = re.compile(r"n\d{8}")
DEVKIT = Path("ILSVRC2012_devkit_t12/data")
KAGGLE_TREE = ("ILSVRC", "Data", "CLS-LOC", "val")
ORDER_FILES = ("LOC_synset_mapping.txt", "synset_words.txt", "synsets.txt")
GROUND_TRUTH = "ILSVRC2012_validation_ground_truth.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Class indices by an image's name without suffix, and the file that tells them."""

    source: Path
    by_stem: Mapping[str, int]
    classes: int


def places(folder: Path) -> list[Path]:
    """Where label files are looked for: beside the images, above, and in an unpacked devkit."""
    near = [folder, folder.parent]
    if folder.parts[-4:] == KAGGLE_TREE:
        near.append(folder.parents[3])
    return [place for n in near for place in (n, n / DEVKIT)]


def find(folder: Path) -> Labels:
    """The labels of flat images. Raises DatasetError where there are none, or unusable ones."""
    for name, read in READERS.items():
        for place in places(folder):
            if (path := place / name).is_file():
                return read(path, folder)
    raise DatasetError(
        f"no labels for the images in {folder}: looked there and above for {', '.join(READERS)}. "
        "Or sort the images into one folder a class, named by its WordNet id"
    )


def class_order(folder: Path) -> tuple[str, ...] | None:
    """The WordNet ids in the order of the class indices, from a file of them or a training set."""
    for place in places(folder):
        for name in ORDER_FILES:
            if (path := place / name).is_file():
                ids = [words[0] for _, words in _lines(path)]
                if bad := [i for i in ids if not WORDNET_ID.fullmatch(i)]:
                    raise DatasetError(f"{path} should list WordNet ids, but has {listed(bad)}")
                return tuple(sorted(set(ids)))
    train = folder.parent / "train"
    ids = [p.name for p in pictures.folders(train)] if train.is_dir() else []
    wordnet_ids = [i for i in ids if WORDNET_ID.fullmatch(i)]
    return tuple(wordnet_ids) if len(wordnet_ids) == CLASSES else None


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Numbers, from 1, and words of the lines that are not empty."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} can't be read: {error}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if words := line.split():
            yield number, words


def _read_index_file(path: Path, folder: Path) -> Labels:
    """`name index` lines; a single column of numbers is the devkit's."""
    lines = list(_lines(path))
    if lines and all(len(words) == 1 and words[0].isdigit() for _, words in lines):
        return _read_ground_truth(path, folder)
    by_stem: dict[str, int] = {}
    for number, words in lines:
        if len(words) != 2 or not words[1].isdigit():
            raise DatasetError(
                f"{path}, line {number}: expected `image index`, found {' '.join(words)[:60]!r}"
            )
        if by_stem.setdefault(Path(words[0]).stem, int(words[1])) != int(words[1]):
            raise DatasetError(f"{path}, line {number}: a second label for {words[0]}")
    highest = max(by_stem.values(), default=0)
    if highest >= CLASSES:
        hint = (
            "they seem to count from 1, and indices count from 0"
            if highest == CLASSES
            else "such a list, as in ImageSets/CLS-LOC, numbers the images and not their classes"
        )
        raise DatasetError(f"{path} has indices up to {highest} for {CLASSES} classes: {hint}")
    return Labels(source=path, by_stem=by_stem, classes=CLASSES)


def _read_solution(path: Path, folder: Path) -> Labels:
    """Kaggle's `ImageId,PredictionString` lines, where a string begins with a WordNet id."""
    ids = {}
    for number, words in _lines(path):
        name, comma, wordnet_id = words[0].partition(",")
        if number == 1 and name == "ImageId":
            continue
        if not comma or not WORDNET_ID.fullmatch(wordnet_id):
            raise DatasetError(
                f"{path}, line {number}: expected `image,WordNet id …`, found "
                f"{' '.join(words)[:60]!r}"
            )
        ids[Path(name).stem] = wordnet_id
    used = tuple(sorted(set(ids.values())))
    order = class_order(folder) or used
    if order is used and len(used) != CLASSES:
        raise DatasetError(
            f"{path} labels with {len(used)} WordNet ids, from which the order of the {CLASSES} "
            f"classes can't be told: put {ORDER_FILES[0]} beside it"
        )
    index = {wordnet_id: i for i, wordnet_id in enumerate(order)}
    if unknown := sorted(set(used) - index.keys()):
        raise DatasetError(f"{path} has classes that the list of classes lacks: {listed(unknown)}")
    return Labels(
        source=path,
        by_stem={stem: index[wordnet_id] for stem, wordnet_id in ids.items()},
        classes=len(order),
    )


def _read_ground_truth(path: Path, folder: Path) -> Labels:
    """The devkit's file: line i holds the ILSVRC2012_ID of image i."""
    ids = _devkit_ids(folder)
    if ids is None:
        raise DatasetError(
            f"{path} numbers the classes in the devkit's order (ILSVRC2012_ID, 1 to {CLASSES}), "
            "not by sorted WordNet ids as models do; taken as it is, nearly every label would be "
            "wrong. Put the devkit's meta.mat or map_clsloc.txt beside it to translate, or use "
            "val.txt (`image index`) or class folders"
        )
    index = {wordnet_id: i for i, wordnet_id in enumerate(sorted(ids.values()))}
    by_stem = {}
    for number, words in _lines(path):
        if len(words) != 1 or not words[0].isdigit() or int(words[0]) not in ids:
            raise DatasetError(
                f"{path}, line {number}: expected an ILSVRC2012_ID, 1 to {len(ids)}, found "
                f"{' '.join(words)[:60]!r}"
            )
        by_stem[f"ILSVRC2012_val_{number:08d}"] = index[ids[int(words[0])]]
    return Labels(source=path, by_stem=by_stem, classes=len(ids))


def _devkit_ids(folder: Path) -> dict[int, str] | None:
    """WordNet ids by ILSVRC2012_ID, where a file of the devkit is there to tell them."""
    for place in places(folder):
        if (path := place / "map_clsloc.txt").is_file():
            return _read_map(path)
        if (path := place / "meta.mat").is_file():
            return _read_meta(path)
    return None


def _read_map(path: Path) -> dict[int, str]:
    """`WordNet id, ILSVRC2012_ID, name` lines."""
    ids = {}
    for number, words in _lines(path):
        if len(words) < 2 or not WORDNET_ID.fullmatch(words[0]) or not words[1].isdigit():
            raise DatasetError(f"{path}, line {number}: expected `n02119789 1 kit_fox`")
        ids[int(words[1])] = words[0]
    return ids


def _read_meta(path: Path) -> dict[int, str]:
    """The leaves among `synsets`, whose ILSVRC2012_ID is at most 1,000."""
    if find_spec("scipy") is None:
        raise DatasetError(f"{path} is a MATLAB file, which needs scipy to read: pip install scipy")
    try:
        synsets = import_module("scipy.io").loadmat(path, squeeze_me=True)["synsets"]
        numbers, ids = synsets["ILSVRC2012_ID"], synsets["WNID"]
    except Exception as error:  # what a damaged file makes the reader raise is not documented
        raise DatasetError(f"{path} is not the devkit's meta.mat: {error}") from error
    return {int(n): str(i) for n, i in zip(numbers, ids, strict=True) if int(n) <= CLASSES}


READERS: Mapping[str, Callable[[Path, Path], Labels]] = {
    "val.txt": _read_index_file,
    "val_map.txt": _read_index_file,
    "LOC_val_solution.csv": _read_solution,
    GROUND_TRUTH: _read_ground_truth,
}


def indices(folder: Path, ids: Sequence[str]) -> dict[str, int]:
    """Class indices of WordNet ids that name folders: in the order of a list of all classes, where
    one is there, else in the folders' own."""
    order = class_order(folder) or tuple(sorted(ids))
    if unknown := sorted(set(ids) - set(order)):
        raise DatasetError(
            f"{folder} has folders that the list of classes lacks: {listed(unknown)}"
        )
    return {wordnet_id: index for index, wordnet_id in enumerate(order)}
