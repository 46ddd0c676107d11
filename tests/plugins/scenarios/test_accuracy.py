"""Accuracy of a few outputs, whose right answers can be counted by hand."""

import numpy as np
import pytest

from benchrack.plugins.scenarios.accuracy import assess

REFERENCE = np.array(
    [[4.0, 0, 0, 0, 0, 0], [0, 4, 0, 0, 0, 0], [0, 0, 4, 0, 0, 0], [0, 0, 0, 4, 0, 0]]
)


def test_top1_top5_drop_and_agreement():
    outputs = REFERENCE.copy()
    outputs[3] = [5, 4, 3, 2, 1, 0]  # says 0, the label 3 is fourth: wrong at top-1, right at top-5
    found = assess(outputs, REFERENCE, [0, 1, 5, 3], trained=True)
    assert found.images == 4
    assert found.top1.value == 0.5
    assert found.reference_top1 == 0.75
    assert found.top1_drop_points == pytest.approx(25)
    assert found.agreement.value == 0.75
    assert found.top5.value == 0.75  # class 5 of the third image ties at the end


def test_intervals_are_wilsons():
    outputs = np.eye(20)
    labels = [*range(18), 0, 0]
    found = assess(outputs, outputs, labels, trained=True)
    assert (found.top1.low, found.top1.high) == pytest.approx((0.699, 0.972), abs=5e-4)


def test_untrained_weights_have_no_accuracy_but_an_agreement():
    found = assess(REFERENCE, REFERENCE, [0, 1, 2, 3], trained=False)
    assert found.top1 is found.top5 is found.reference_top1 is found.top1_drop_points is None
    assert found.agreement.value == 1
    assert found.logit_cosine == pytest.approx(1)


def test_without_labels_there_is_no_accuracy():
    found = assess(REFERENCE, REFERENCE, [None] * 4, trained=True)
    assert found.top1 is None
