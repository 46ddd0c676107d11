"""The power table: what the images of the throughput table cost in watts and in memory."""

from __future__ import annotations

import math
from collections.abc import Callable

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
from benchrack.reports.numbers import figure
from benchrack.reports.pooling import Pool, pool
from benchrack.reports.records import Results
from benchrack.results import Power
from benchrack.statistics import median_interval


def power_table(results: Results) -> Table | None:
    """None where no meter measured anything."""
    pools = in_order(p for p in pool(results, "throughput") if _powers(p))
    columns = [
        _median("power W", lambda power: power.average_power_w),
        _median("idle W", lambda power: power.idle_power_w),
        _median("images/s/W", lambda power: power.images_per_s_per_w),
        _median("above idle", lambda power: power.images_per_s_per_w_above_idle),
        _median("memory GiB", lambda power: power.memory_used_peak_gib),
    ]
    if all(column.cell(p).empty for p in pools for column in columns):
        return None
    notes = [
        "Mean power over the measurement; images/s per watt of it, and of what it is above idle.",
        *common_notes(pools),
    ]
    keys = [*key_columns(pools), BATCH]
    return listed("Power and memory", pools, keys, columns, notes=notes, remarks=_remarks)


def _powers(p: Pool) -> list[Power]:
    found = [start.measurement.power for start in p.starts]
    return [power for power in found if power is not None]


def _median(header: str, of: Callable[[Power], float | None]) -> Column:
    def cell(p: Pool) -> Cell:
        values = [value for power in _powers(p) if (value := of(power)) is not None]
        known = [value for value in values if math.isfinite(value)]
        if not known:
            return EMPTY
        median = median_interval(known).value
        return Cell(text=figure(median), value=median)

    return Column(header=header, cell=cell)


def _remarks(p: Pool) -> list[str]:
    powers = _powers(p)
    remarks = [fault for power in powers for fault in power.meter_faults]
    if any(power.energy_window_too_short for power in powers):
        remarks.append("the power meter needs a longer window: do not quote its figures")
    return remarks
