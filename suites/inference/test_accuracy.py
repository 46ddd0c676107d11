"""How often is a model right, and what does the precision cost it?"""

import pytest

from benchrack.types import Case

pytestmark = [pytest.mark.inference, pytest.mark.accuracy]


def test_accuracy(case: Case, measured) -> None:
    """One case of the sweep; what it measured becomes a record, and its reasons a verdict."""
    measured(case)
