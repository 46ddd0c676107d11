"""Whether a series of times has become steady, and whether it stayed so.

docs/statistics.md has the reasons, and how well the rules do on simulated series.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchrack.statistics.order_statistics import (
    quantile,
    rank_correlation_with_time,
    sorted_finite,
)


def steady(windows: Sequence[float], *, tolerance: float = 0.02, minimum: int = 12) -> bool:
    """Whether the times of consecutive equal windows of work, oldest first, have become steady.

    Looks at the latest third of the windows, and at `minimum` of them at least, so that what was
    seen while warming up is forgotten, and a longer warm-up is judged on more. They are steady when

    * the medians of their older and newer half differ by at most `tolerance` (relative), and
    * their ranks show no trend: the rank correlation with time is within one standard error,
      1/√(n - 1), of zero (H. E. Daniels, 1950). That is a low bar to call something a trend: to
      wait for a few more windows is cheap, a warm-up inside the measurement is not.

    A trend that moves the medians by less than a tenth of the tolerance is let through. A ramp
    slower than the noise can't be seen this early; `assess` may still see it in the rounds.

    Raises ValueError for a window that is not finite, or a minimum under 4.
    """
    if minimum < 4:
        raise ValueError(f"a trend needs at least 4 windows, got minimum={minimum}")
    if len(windows) < minimum:
        return False
    recent = windows[-max(minimum, len(windows) // 3) :]
    half = len(recent) // 2
    older, newer = _median(recent[:half]), _median(recent[-half:])
    change = abs(newer - older)
    if change <= tolerance / 10 * abs(older):
        return True
    trend = rank_correlation_with_time(recent)
    return change <= tolerance * abs(older) and abs(trend) * math.sqrt(len(recent) - 1) <= 1


def drift(samples: Sequence[float]) -> float:
    """How far a series moved, oldest first: the median of its last third over that of its first,
    less 1. 0.0 where that is no trend: a rank correlation with time (H. E. Daniels, 1950) within
    three standard errors, 3/√(n - 1), of zero; so always for fewer than ten samples.

    Raises ValueError for a sample that is not finite.
    """
    if len(samples) < 10:
        return 0.0
    if abs(rank_correlation_with_time(samples)) * math.sqrt(len(samples) - 1) <= 3:
        return 0.0
    third = len(samples) // 3
    first, last = _median(samples[:third]), _median(samples[-third:])
    return last / first - 1 if first else 0.0


def _median(samples: Sequence[float]) -> float:
    return quantile(sorted_finite(samples), 0.5)
