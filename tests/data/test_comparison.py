"""Accuracy and output checks on small arrays whose answers can be counted by hand."""

import numpy as np
import pytest

from benchrack.data.comparison import assess_accuracy, check_outputs, cosines

REFERENCE = np.array(
    [[4.0, 0, 0, 0, 0, 0], [0, 4, 0, 0, 0, 0], [0, 0, 4, 0, 0, 0], [0, 0, 0, 4, 0, 0]]
)


def test_top1_top5_drop_and_agreement():
    outputs = REFERENCE.copy()
    outputs[3] = [5, 4, 3, 2, 1, 0]  # says 0, the label 3 is fourth: wrong at top-1, right at top-5
    found = assess_accuracy(outputs, REFERENCE, [0, 1, 5, 3], trained=True)
    assert found.images == 4
    assert found.top1.value == 0.5
    assert found.reference_top1 == 0.75
    assert found.top1_drop_points == pytest.approx(25)
    assert found.agreement.value == 0.75
    assert found.top5.value == 0.75  # class 5 of the third picture ties at the end


def test_intervals_are_wilsons():
    outputs = np.eye(20)
    labels = [*range(18), 0, 0]
    found = assess_accuracy(outputs, outputs, labels, trained=True)
    assert (found.top1.low, found.top1.high) == pytest.approx((0.699, 0.972), abs=5e-4)


def test_untrained_weights_have_no_accuracy_but_an_agreement():
    found = assess_accuracy(REFERENCE, REFERENCE, [0, 1, 2, 3], trained=False)
    assert found.top1 is found.top5 is found.reference_top1 is found.top1_drop_points is None
    assert found.agreement.value == 1
    assert found.logit_cosine == pytest.approx(1)


def test_without_labels_there_is_no_accuracy():
    found = assess_accuracy(REFERENCE, REFERENCE, [None] * 4, trained=True)
    assert found.top1 is None


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
