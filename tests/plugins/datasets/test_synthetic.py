"""Random images: all different, the same for one seed, drawn only when they are read."""

import numpy as np
import pytest
from fakes.settings import make_request

from benchrack.errors import DatasetError
from benchrack.plugins.datasets.synthetic import open_synthetic


def test_pictures_differ_and_have_no_labels():
    split = open_synthetic(None, make_request())
    assert split.classes is None
    assert len(split.measured) == 50_000
    read = [split.measured[n].read() for n in (0, 1, 49_999)]
    read += [split.calibration[n].read() for n in (0, -1)]
    assert {(p.shape, p.dtype.name) for p in read} == {((256, 256, 3), "uint8")}
    assert len({p.tobytes() for p in read}) == 5
    assert split.measured[3].label is None


def test_names_are_unique_over_both_parts():
    split = open_synthetic(None, make_request(calibration_batches=2, calibration_batch_size=3))
    names = [s.name for s in (*split.calibration, *split.measured[:20])]
    assert len(split.calibration) == 6
    assert len(set(names)) == 26


def test_pictures_depend_on_the_seed_alone():
    first, again, other = (open_synthetic(None, make_request(seed=s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.measured[5].read(), again.measured[5].read())
    assert (first.measured[5].read() != other.measured[5].read()).any()
    assert first.digest == again.digest != other.digest


def test_it_is_a_sequence():
    measured = open_synthetic(None, make_request()).measured
    part = measured[10:13]
    assert [s.name for s in part] == [measured[n].name for n in (10, 11, 12)]
    assert len(measured[:7]) == 7
    with pytest.raises(IndexError):
        measured[50_000]


def test_an_argument_is_refused():
    with pytest.raises(DatasetError, match="takes no argument"):
        open_synthetic("x", make_request())
