"""Output checks on small arrays whose answers can be counted by hand."""

import numpy as np
import pytest

from benchrack.data.comparison import check_outputs, cosines

REFERENCE = np.array(
    [[4.0, 0, 0, 0, 0, 0], [0, 4, 0, 0, 0, 0], [0, 0, 4, 0, 0, 0], [0, 0, 0, 4, 0, 0]]
)


def test_error_is_relative_to_the_pictures_largest_reference_output():
    outputs = REFERENCE.copy()
    outputs[1, 0] = 0.4
    found = check_outputs(outputs, REFERENCE, "pytorch-fp32")
    assert found.max_relative_error == pytest.approx(0.1)
    assert found.agreement == 1
    assert found.reference == "pytorch-fp32"


def test_outputs_that_are_not_finite_are_infinitely_wrong():
    outputs = REFERENCE.copy()
    outputs[2, 2] = np.nan
    found = check_outputs(outputs, REFERENCE, "pytorch-fp32")
    assert found.max_relative_error == float("inf")
    assert found.cosine == 0


def test_constant_outputs_have_no_spread():
    constant = np.ones((4, 6))
    assert check_outputs(constant, REFERENCE, "r").input_spread == 0
    assert check_outputs(REFERENCE, REFERENCE, "r").input_spread == 1


def test_one_pair_of_equal_outputs_is_enough_to_have_no_spread():
    outputs = REFERENCE.copy()
    outputs[3] = outputs[0]
    assert check_outputs(outputs, REFERENCE, "r").input_spread == 0


def test_cosines():
    a, b = np.array([[1.0, 0], [1, 1], [0, 0]]), np.array([[0.0, 1], [2, 2], [1, 0]])
    assert cosines(a, b) == pytest.approx([0, 1, 0])


def test_outputs_of_another_shape_are_said_so():
    with pytest.raises(ValueError, match=r"shape \(4, 2\), and those of fp32 .* \(4, 6\)"):
        check_outputs(REFERENCE[:, :2], REFERENCE, "fp32")
