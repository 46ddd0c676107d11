"""How long does one batch take, from the host's memory and back?"""

from collections.abc import Callable

import pytest

from benchrack.api import Case, Measurement

pytestmark = [pytest.mark.inference, pytest.mark.latency]


def test_latency(case: Case, measured: Callable[[Case], Measurement]) -> None:
    """One case of the sweep; what it measured becomes a record, and its reasons a verdict."""
    measured(case)
