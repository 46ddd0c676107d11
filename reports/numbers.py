"""Figures as text: four significant digits, and no more than was measured."""

from __future__ import annotations

import math

from benchrack.statistics.interval import Interval
from benchrack.vocabulary.results import Measurement


def figure(value: float | None, digits: int = 4) -> str:
    """`123.4`, `12.34`, `0.1234`; whole numbers from four digits on. Nothing measured: nothing."""
    if value is None or not math.isfinite(value):
        return ""
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    # Rounding may carry into another digit: 99.996 has two decimals as 100.00, and needs one.
    decimals = digits - 1 - math.floor(math.log10(abs(round(value, decimals))))
    return f"{value:.{max(0, decimals)}f}"


def percent(share: float | None) -> str:
    """A share (0 to 1) in percent, with one decimal."""
    return "" if share is None or not math.isfinite(share) else f"{100 * share:.1f}"


def half_width(interval: Interval, sign: str = "±") -> str:
    """The wider half of an interval, relative to its value: `±0.8 %`; empty where there is none.

    The sign `~` is for a spread that is no 95 % interval.
    """
    if (share := interval.half_width) is None:
        return ""
    relative = 100 * share
    decimals = 0 if relative >= 9.95 else 1 if relative >= 0.095 else 2
    return f"{sign}{relative:.{decimals}f} %"


def spread_sign(measurement: Measurement) -> str:
    """What stands before the spread of a measurement's images/s: `±` for a 95 % interval, and `~`
    for the spread of a few blocks, where the rounds were not independent."""
    steadiness = measurement.steadiness
    return "~" if steadiness and steadiness.independent is False else "±"


def percent_bounds(interval: Interval) -> str:
    """The ends of an interval of a share, in percent: `[69.9, 97.2]`."""
    if interval.low is None or interval.high is None:
        return ""
    return f"[{percent(interval.low)}, {percent(interval.high)}]"
