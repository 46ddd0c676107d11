"""A value and how far it is known."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with a two-sided interval; low and high are None where the samples give none."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def half_width(self) -> float | None:
        """The distance to the farther end, relative to the value; None without ends, for a value of
        zero, or for what is not a finite number."""
        low, high, value = self.low, self.high, self.value
        if low is None or high is None or not value:
            return None
        if not all(map(math.isfinite, (low, high, value))):
            return None
        return max(high - value, value - low) / abs(value)
