"""What takes the place of replaying where pytest-benchmark is switched off (`-p no:benchmark`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def replay() -> Callable[..., Any]:
    """Nothing is replayed: the journal alone holds the record."""
    return lambda samples, extra_info: None
