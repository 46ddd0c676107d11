"""The twenty photos of the foolbox package."""

import sys

import pytest
from fakes.settings import make_request

from benchrack.errors import DatasetError
from benchrack.plugins.datasets import packages, sample_photos

pytest.importorskip("foolbox", exc_type=ImportError)


def test_five_photos_calibrate_and_fifteen_are_measured():
    split = sample_photos.open_photos(None, make_request())
    assert (len(split.calibration), len(split.measured)) == (5, 15)
    assert split.classes == 1000
    first = split.calibration[0]
    assert first.name.startswith("imagenet_00_")
    assert first.read().shape == (512, 512, 3)


def test_labels_are_read_from_the_names_of_the_files():
    split = sample_photos.open_photos(None, make_request(calibration_batches=0))
    for sample in split.measured:
        assert sample.name == f"imagenet_{sample.name.split('_')[1]}_{sample.label}.jpg"
        assert 0 <= sample.label < 1000


def test_nothing_is_set_aside_without_calibration_batches():
    split = sample_photos.open_photos(None, make_request(calibration_batches=0))
    assert (len(split.calibration), len(split.measured)) == (0, 20)


def test_fewer_calibrate_where_fewer_are_asked_for():
    settings = make_request(calibration_batches=1, calibration_batch_size=2)
    split = sample_photos.open_photos(None, settings)
    assert (len(split.calibration), len(split.measured)) == (2, 18)


def test_splits_have_digests_of_their_own():
    digests = {
        sample_photos.open_photos(None, make_request(calibration_batches=n)).digest for n in (0, 50)
    }
    assert len(digests) == 2


def test_foolbox_is_not_imported(monkeypatch):
    """Its import takes seconds and other packages."""
    monkeypatch.setitem(sys.modules, "foolbox", None)
    monkeypatch.delitem(sys.modules, "foolbox")
    sample_photos.open_photos(None, make_request())
    assert "foolbox" not in sys.modules


def test_an_argument_is_refused():
    with pytest.raises(DatasetError, match="takes no argument"):
        sample_photos.open_photos("somewhere", make_request())


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(DatasetError, match=r"foolbox is not installed.*benchrack\[samples\]"):
        sample_photos.open_photos(None, make_request())


def test_a_package_without_photos_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(packages, "folder", lambda name: tmp_path)
    with pytest.raises(DatasetError, match="carries no photos"):
        sample_photos.open_photos(None, make_request())
