"""How often is a model right, and what does the precision cost it?"""

from collections.abc import Callable

import pytest

from benchrack.api import Case, Measurement

pytestmark = [pytest.mark.inference, pytest.mark.accuracy]


def test_accuracy(case: Case, measured: Callable[[Case], Measurement]) -> None:
    """One case of the sweep; what it measured becomes a record, and its reasons a verdict."""
    measured(case)
