"""A figure relative to another: images/s, and images/s per watt above idle.

Whatever they are relative to (one device, batch 1, another card): a ratio to a figure that is not
valid is marked, even where its own figure is valid.
"""

from __future__ import annotations

import dataclasses

from benchrack.reports.layout import EMPTY, Cell
from benchrack.reports.numbers import half_width
from benchrack.reports.pooling import Pool, over_starts, rates_of, sign_of
from benchrack.reports.power import PER_WATT_ABOVE_IDLE, median_of
from benchrack.statistics.interval import Interval


def rate_ratio(p: Pool, base: Pool) -> Interval | None:
    """A pool's images/s ÷ the base's, with the bounds that the bounds of both allow; None where
    either is not known."""
    rates, ones = rates_of(p.starts), rates_of(base.starts)
    if not rates or not ones:
        return None
    rate, one = over_starts(rates), over_starts(ones)
    if rate.value <= 0 or one.value <= 0:
        return None
    if is_base(p, base):
        return Interval(value=1.0)
    return Interval(
        value=rate.value / one.value,
        low=rate.low / one.high if rate.low is not None and one.high else None,
        high=rate.high / one.low if rate.high is not None and one.low else None,
    )


def rate_ratio_cell(p: Pool, base: Pool) -> Cell:
    """Images/s ÷ the base's."""
    ratio = rate_ratio(p, base)
    if ratio is None:
        return EMPTY
    return Cell(
        text=f"{ratio.value:.2f}",
        spread=half_width(ratio, sign_of(p.starts, base.starts)),
        value=ratio.value,
        invalid=doubtful(p, base),
    )


def per_watt_ratio_cell(p: Pool, base: Pool) -> Cell:
    """Images/s per watt above idle ÷ the base's."""
    own, one = (median_of(starts, PER_WATT_ABOVE_IDLE) for starts in (p.starts, base.starts))
    if own is None or not one:
        return EMPTY
    invalid = doubtful(p, base, energy=True)
    return Cell(text=f"{own / one:.2f}", value=own / one, invalid=invalid)


def doubtful(p: Pool, base: Pool, *, energy: bool = False) -> bool:
    """Whether a pool stands relative to another figure, of energy or not, that is not valid."""
    return not is_base(p, base) and base.doubtful(energy=energy)


def marked(cell: Cell, p: Pool, base: Pool, *, energy: bool = False) -> Cell:
    """A ratio's cell, marked also where the pool's own figure, of energy or not, is not valid."""
    own = not is_base(p, base) and p.doubtful(energy=energy)
    return cell if cell.empty or not own else dataclasses.replace(cell, invalid=True)


def is_base(p: Pool, base: Pool) -> bool:
    """Whether a pool is what it is relative to."""
    return p.starts == base.starts
