"""How many images a second does a model give, batches back to back?"""

from collections.abc import Callable

import pytest

from benchrack.api import Case, Measurement

pytestmark = [pytest.mark.inference, pytest.mark.throughput]


def test_throughput(case: Case, measured: Callable[[Case], Measurement]) -> None:
    """One case of the sweep; what it measured becomes a record, and its reasons a verdict."""
    measured(case)
