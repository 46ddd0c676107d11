"""How many images a second does a model give, batches back to back?"""

import pytest

from benchrack.types import Case

pytestmark = [pytest.mark.inference, pytest.mark.throughput]


def test_throughput(case: Case, measured) -> None:
    """One case of the sweep; what it measured becomes a record, and its reasons a verdict."""
    measured(case)
