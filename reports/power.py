"""What the images of the throughput table take: of the card's peak, in watts and in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from benchrack.reports.layout import (
    BATCH,
    EMPTY,
    Cell,
    Column,
    Table,
    common_notes,
    in_order,
    key_columns,
    listed,
)
from benchrack.reports.numbers import figure, half_width
from benchrack.reports.pooling import Pool, over_starts, pool, rates_of
from benchrack.reports.records import Record, Results
from benchrack.results import Measurement, Power
from benchrack.statistics import median_interval

Figure = Callable[[Measurement], float | None]


def power_table(results: Results) -> Table | None:
    """None where neither a share of a published peak is known, nor a meter measured anything."""
    pools = in_order(p for p in pool(results, "throughput") if p.starts)
    columns = [
        column("% of peak", lambda m: None if m.share_of_peak is None else 100 * m.share_of_peak),
        column("power W", of_power(lambda power: power.average_power_w)),
        column("idle W", of_power(lambda power: power.idle_power_w)),
        column("images/s/W", of_power(lambda power: power.images_per_s_per_w)),
        column("above idle", of_power(lambda power: power.images_per_s_per_w_above_idle)),
        column("memory GiB", of_power(lambda power: power.memory_used_peak_gib)),
    ]
    pools = [p for p in pools if any(not c.cell(p).empty for c in columns)]
    if not pools:
        return None
    columns[-1] = column("memory GiB", _memory_gib)
    shown = {c.header for c in columns if any(not c.cell(p).empty for p in pools)}
    keys = [*key_columns(pools), BATCH]
    return listed(
        "Throughput against peak, power and memory",
        pools,
        keys,
        [RATE, *columns],
        notes=[*_notes(shown), *common_notes(pools)],
        remarks=_remarks,
    )


def _rate(p: Pool) -> Cell:
    rates = rates_of(p.starts)
    if not rates:
        return EMPTY
    rate = over_starts(rates)
    return Cell(text=figure(rate.value), spread=half_width(rate), value=rate.value)


RATE = Column(header="images/s", cell=_rate)


def of_power(of: Callable[[Power], float | None]) -> Figure:
    """A figure of the power of a measurement, where there is one."""
    return lambda measurement: of(measurement.power) if measurement.power else None


def _memory_gib(measurement: Measurement) -> float | None:
    """The fullest card's as the meters saw it; else what was used up to the end of the warm-up."""
    power, footprint = measurement.power, measurement.footprint
    if power is not None and power.memory_used_peak_gib is not None:
        return power.memory_used_peak_gib
    return footprint.peak_gib if footprint else None


def median_of(starts: Sequence[Record], of: Figure) -> float | None:
    """The median over the starts that have the figure; None where none has."""
    values = [value for start in starts if (value := of(start.measurement)) is not None]
    known = [value for value in values if math.isfinite(value)]
    return median_interval(known).value if known else None


def column(header: str, of: Figure) -> Column:
    """A column with the median of a figure over the starts of each row."""

    def cell(p: Pool) -> Cell:
        median = median_of(p.starts, of)
        return EMPTY if median is None else Cell(text=figure(median), value=median)

    return Column(header=header, cell=cell)


def _notes(shown: set[str]) -> list[str]:
    notes = {
        "% of peak": "% of peak: model operations × images/s ÷ the dense peak that was published "
        "for the card in the arithmetic that was asked for.",
        "power W": "Mean power over the measurement; images/s per watt of it, and of what it is "
        "above idle.",
        "memory GiB": "Memory at its peak: of the fullest card, or of one process on the CPU.",
    }
    return [note for header, note in notes.items() if header in shown]


def _remarks(p: Pool) -> list[str]:
    powers = [power for start in p.starts if (power := start.measurement.power) is not None]
    remarks = [fault for power in powers for fault in power.meter_faults]
    if any(power.energy_window_too_short for power in powers):
        remarks.append("the power meter needs a longer window: do not quote its figures")
    return remarks
