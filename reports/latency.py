"""The latency table: percentiles of single synchronised batches, in milliseconds."""

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
    whole,
)
from benchrack.reports.numbers import figure, half_width
from benchrack.reports.pooling import Pool, over_starts, pool
from benchrack.reports.records import Results
from benchrack.results import Interval, Latency


def latency_table(results: Results) -> Table | None:
    """None where no latency was asked for."""
    pools = in_order(pool(results, "latency"))
    if not pools:
        return None
    columns = [
        _percentile("p50 ms", lambda latency: latency.p50),
        _percentile("p90 ms", lambda latency: latency.p90),
        _percentile("p99 ms", lambda latency: latency.p99),
        Column(header="samples", cell=_samples),
    ]
    notes = [
        "Of single batches, each waited for; ± is the half width of the 95 % interval.",
        "A percentile is empty where there are too few samples for it.",
        *common_notes(pools),
    ]
    return listed("Latency, ms a batch", pools, [*key_columns(pools), BATCH], columns, notes=notes)


def _latencies(p: Pool) -> list[Latency]:
    found = [start.measurement.latency for start in p.starts]
    return [latency for latency in found if latency is not None]


def _percentile(header: str, of: Callable[[Latency], Interval | None]) -> Column:
    def cell(p: Pool) -> Cell:
        intervals = [of(latency) for latency in _latencies(p)]
        known = [i for i in intervals if i is not None and math.isfinite(i.value)]
        if not known:
            return EMPTY
        pooled = over_starts(known)
        return Cell(text=figure(pooled.value), spread=half_width(pooled), value=pooled.value)

    return Column(header=header, cell=cell)


def _samples(p: Pool) -> Cell:
    counts = [latency.samples for latency in _latencies(p)]
    return whole(sum(counts) if counts else None)
