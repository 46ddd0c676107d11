"""The latency table: percentiles of single synchronised batches, in milliseconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from benchrack.reports.layout import (
    EMPTY,
    Cell,
    Column,
    Table,
    case_keys,
    figure_cell,
    listed,
    ordered,
    whole,
)
from benchrack.reports.notes import common_notes, single_start_notes
from benchrack.reports.numbers import figure
from benchrack.reports.pooling import Pool, modes_of_starts, over_starts
from benchrack.reports.records import Results
from benchrack.statistics.interval import Interval


def latency_table(results: Results) -> Table | None:
    """None where no latency was asked for."""
    pools = ordered(results, "latency")
    if not pools:
        return None
    columns = [
        _percentile("p50 ms", lambda latency: latency.p50),
        _percentile("p90 ms", lambda latency: latency.p90),
        _percentile("p99 ms", lambda latency: latency.p99),
        Column(header="samples", cell=_samples),
        _part("H2D ms", lambda latency: latency.copy_in_ms),
        _part("compute ms", lambda latency: latency.compute_ms),
        _part("D2H ms", lambda latency: latency.copy_out_ms),
    ]
    notes = [
        "Of single batches, each waited for; ± is the half width of the 95 % interval.",
        "A percentile is empty where a start has too few samples, or too correlated ones, to tell.",
        *_notes_on_parts(pools),
        *single_start_notes(pools),
        *common_notes(pools),
    ]
    keys = case_keys(pools, batch=True)
    return listed("Latency, ms a batch", pools, keys, columns, notes=notes, remarks=_remarks)


def _latencies(p: Pool) -> list[Any]:
    found = [start.measurement.result for start in p.starts]
    return [latency for latency in found if latency is not None]


def _percentile(header: str, of: Callable[[Any], Interval | None]) -> Column:
    def cell(p: Pool) -> Cell:
        pooled = percentile_of(p, of)
        return EMPTY if pooled is None else figure_cell(pooled)

    return Column(header=header, cell=cell)


def percentile_of(p: Pool, of: Callable[[Any], Interval | None]) -> Interval | None:
    """A percentile over the starts; None where any of them lacks it. Those that have none are the
    correlated ones, with slow stretches: without them the others would look too good."""
    found = [of(latency) for latency in _latencies(p)]
    known = [i for i in found if i is not None and math.isfinite(i.value)]
    return over_starts(known) if known and len(known) == len(p.starts) else None


def _part(header: str, of: Callable[[Any], float | None]) -> Column:
    def cell(p: Pool) -> Cell:
        known = [value for latency in _latencies(p) if (value := of(latency)) is not None]
        if not known:
            return EMPTY
        median = statistics.median(known)
        return Cell(text=figure(median), value=median)

    return Column(header=header, cell=cell)


def _notes_on_parts(pools: Sequence[Pool]) -> list[str]:
    if all(latency.compute_ms is None for p in pools for latency in _latencies(p)):
        return []
    return ["H2D, compute and D2H: medians of batches that were waited for after each part."]


def _remarks(p: Pool) -> list[str]:
    p50s = [latency.p50.value for latency in _latencies(p) if latency.p50 is not None]
    return modes_of_starts(list(filter(math.isfinite, p50s)), "ms (p50)")


def _samples(p: Pool) -> Cell:
    counts = [latency.samples for latency in _latencies(p)]
    return whole(sum(counts) if counts else None)
