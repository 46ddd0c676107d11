"""What the images of the throughput table take: of the card's peak, in watts and in memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from benchrack.reports.layout import (
    EMPTY,
    Cell,
    Column,
    Footnotes,
    Table,
    case_keys,
    figure_cell,
    in_order,
    listed,
)
from benchrack.reports.matrix import by_batch
from benchrack.reports.notes import common_notes
from benchrack.reports.pooling import Pool, over_starts, pool, rates_of, sign_of
from benchrack.reports.records import Record, Results
from benchrack.statistics.interval import Interval
from benchrack.statistics.order_statistics import median_interval
from benchrack.vocabulary.results import Measurement, Power

Figure = Callable[[Measurement], float | None]


def power_table(results: Results) -> Table | None:
    """None where neither a share of a published peak, nor power, nor memory is known."""
    pools = in_order(p for p in pool(results, "throughput") if p.starts)
    columns = [
        column("% of peak", lambda m: None if m.share_of_peak is None else 100 * m.share_of_peak),
        column("power W", of_power(lambda p: p.average_power_w), energy=True),
        column(
            "idle W", of_power(lambda p: p.idle_power_w), of_power(lambda p: p.idle_power_spread_w)
        ),
        column("J/image", of_power(lambda p: p.energy_per_image_j), _uncertainty_j, energy=True),
        column("images/s/W", PER_WATT, energy=True),
        column("above idle", PER_WATT_ABOVE_IDLE, energy=True),
        column(
            "system W", of_power(lambda p: p.system_power_w), _system_uncertainty_w, energy=True
        ),
        column(
            "system idle W",
            of_power(lambda p: p.system_idle_power_w),
            of_power(lambda p: p.system_idle_power_spread_w),
        ),
        column("system images/s/W", of_power(lambda p: p.system_images_per_s_per_w), energy=True),
        column(
            "system above idle",
            of_power(lambda p: p.system_images_per_s_per_w_above_idle),
            energy=True,
        ),
        MEMORY,
    ]
    pools = [p for p in pools if any(not c.cell(p).empty for c in columns)]
    if not pools:
        return None
    shown = {c.header for c in columns if any(not c.cell(p).empty for p in pools)}
    if shown == {"memory GiB"}:
        return _memory_table(pools)
    return listed(
        _title(shown),
        pools,
        case_keys(pools, batch=True),
        [RATE, *columns],
        notes=[*_notes(shown), *common_notes(pools, energy=True)],
        remarks=_remarks,
    )


def _memory_table(pools: Sequence[Pool]) -> Table:
    """Of memory alone, which no reason against a rate concerns."""

    def cell(p: Pool, footnotes: Footnotes) -> Cell:
        notes = tuple(footnotes.number(remark) for remark in _remarks(p))
        return dataclasses.replace(MEMORY.cell(p), notes=notes)

    notes = [MEMORY_NOTE, *common_notes(pools, timed=False)]
    return by_batch("Memory, GiB", pools, cell, notes=notes)


def _rate(p: Pool) -> Cell:
    rates = rates_of(p.starts)
    if not rates:
        return EMPTY
    return figure_cell(over_starts(rates), sign_of(p.starts))


RATE = Column(header="images/s", cell=_rate)


def _title(shown: set[str]) -> str:
    """Throughput against what the table has of peak, power and memory."""
    named = {"% of peak": "peak", "power W": "power", "system W": "power", "memory GiB": "memory"}
    found = list(dict.fromkeys(name for header, name in named.items() if header in shown))
    *others, last = found or ["power"]
    return f"Throughput against {', '.join(others)}{' and ' if others else ''}{last}"


def of_power(of: Callable[[Power], float | None]) -> Figure:
    """A figure of the power of a measurement, where there is one."""
    return lambda measurement: of(measurement.power) if measurement.power else None


PER_WATT = of_power(lambda p: p.images_per_s_per_w)
PER_WATT_ABOVE_IDLE = of_power(lambda p: p.images_per_s_per_w_above_idle)


def _uncertainty_j(measurement: Measurement) -> float | None:
    """Of the energy of an image: the same share as of all energy."""
    if (power := measurement.power) is None:
        return None
    return _share(power.energy_per_image_j, power.energy_uncertainty_j, power.energy_j)


def _system_uncertainty_w(measurement: Measurement) -> float | None:
    if (power := measurement.power) is None:
        return None
    return _share(power.system_power_w, power.system_energy_uncertainty_j, power.system_energy_j)


def _share(of: float | None, part: float | None, whole: float | None) -> float | None:
    """The same share of a figure as a part is of its whole."""
    return None if of is None or part is None or not whole else of * part / whole


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


def column(
    header: str, of: Figure, spread: Figure | None = None, *, energy: bool = False
) -> Column:
    """A column with the median of a figure over the starts of each row, ± the median of what the
    starts state for it; whether it is of energy or power in the measurement."""

    def cell(p: Pool) -> Cell:
        median = median_of(p.starts, of)
        if median is None:
            return EMPTY
        half = median_of(p.starts, spread) if spread else None
        stated = Interval(value=median)
        if half is not None:
            stated = Interval(value=median, low=median - half, high=median + half)
        return figure_cell(stated)

    return Column(header=header, cell=cell, energy=energy)


MEMORY = column("memory GiB", _memory_gib)
MEMORY_NOTE = "Memory at its peak: of the fullest card, or of one process on the CPU."


def _notes(shown: set[str]) -> list[str]:
    notes = {
        "% of peak": "% of peak: model operations × images/s ÷ the dense peak that was published "
        "for the card in the arithmetic that was asked for.",
        "power W": "Mean power over the measurement; images/s per watt of it, and of what it is "
        "above idle.",
        "idle W": "Idle power ± its standard deviation over five windows before the sweep.",
        "J/image": "J/image: energy ÷ images in the same window ± what the meter's method and "
        "periods imply, without how well its sensor was calibrated.",
        "system W": "System: the whole machine, as a meter of its own sees it; it holds the power "
        "of the devices.",
        "memory GiB": MEMORY_NOTE,
    }
    return [note for header, note in notes.items() if header in shown]


def _remarks(p: Pool) -> list[str]:
    powers = [power for start in p.starts if (power := start.measurement.power) is not None]
    remarks = [fault for power in powers for fault in power.meter_faults]
    if any(power.energy_window_too_short for power in powers):
        remarks.append("the power meter needs a longer window: do not quote its figures")
    return remarks
