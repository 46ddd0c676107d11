"""Labelled folders of one's own: shuffled by the seed, and refused where labels would be wrong."""

import pytest
from fakes.settings import make_request
from PIL import Image

from benchrack.errors import CorruptImageError, DatasetError
from benchrack.plugins.datasets.image_folder import open_folder

SETTINGS = make_request(calibration_batches=2, calibration_batch_size=3)


@pytest.fixture
def tree(tmp_path):
    for label, name in enumerate(("apple", "pear", "plum")):
        (tmp_path / name).mkdir()
        for number in range(10):
            colour = (80 * label, 20 * number, 0)
            Image.new("RGB", (8, 8), colour).save(tmp_path / name / f"{number}.png")
    return tmp_path


def test_classes_are_numbered_by_the_folders_names(tree):
    split = open_folder(str(tree), SETTINGS)
    assert split.classes == 3
    assert (len(split.calibration), len(split.measured)) == (6, 24)
    samples = [*split.calibration, *split.measured]
    assert len({s.name for s in samples}) == 30
    for sample in samples:
        folder, _, file = sample.name.partition("/")
        assert ("apple", "pear", "plum")[sample.label] == folder
        assert sample.read()[0, 0, 0] == 80 * sample.label
        assert sample.read()[0, 0, 1] == 20 * int(file.removesuffix(".png"))


def test_the_order_is_shuffled_by_the_seed(tree):
    def names(seed):
        split = open_folder(str(tree), make_request(seed=seed, calibration_batches=0))
        return [s.name for s in split.measured]

    assert names(0) == names(0)
    assert names(0) != names(1)
    assert names(0) != sorted(names(0))
    assert sorted(names(0)) == sorted(names(1))
    assert len({name.split("/")[0] for name in names(0)[:10]}) == 3


def test_a_corrupt_picture_is_found_when_it_is_read(tree):
    (tree / "pear" / "3.png").write_bytes(b"")
    split = open_folder(str(tree), make_request(calibration_batches=0))
    (sample,) = [s for s in split.measured if s.name == "pear/3.png"]
    with pytest.raises(CorruptImageError, match=r"pear.3\.png"):
        sample.read()


def test_other_files_and_hidden_folders_are_left_alone(tree):
    (tree / "README.txt").write_text("mine")
    (tree / "pear" / "Thumbs.db").write_bytes(b"x")
    (tree / ".cache").mkdir()
    assert open_folder(str(tree), SETTINGS).classes == 3


def test_a_folder_without_pictures_would_shift_the_classes(tree):
    (tree / "banana").mkdir()
    with pytest.raises(DatasetError, match=r"no images .* in banana"):
        open_folder(str(tree), SETTINGS)


def test_a_picture_without_a_class_is_refused(tree):
    Image.new("RGB", (8, 8)).save(tree / "loose.png")
    with pytest.raises(DatasetError, match=r"without a class: loose\.png"):
        open_folder(str(tree), SETTINGS)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="is empty"):
        open_folder(str(tmp_path), SETTINGS)


def test_more_to_calibrate_than_there_is_names_the_numbers(tree):
    with pytest.raises(DatasetError, match="has 30 images, and 1250 are to calibrate"):
        open_folder(str(tree), make_request())
