"""How long does one batch take, from the host's memory and back?"""

import pytest

from benchrack.types import Case

pytestmark = [pytest.mark.inference, pytest.mark.latency]


def test_latency(case: Case, measured) -> None:
    """One case of the sweep; what it measured becomes a record, and its reasons a verdict."""
    measured(case)
