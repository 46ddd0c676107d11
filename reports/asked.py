"""The table of a scenario that has none of its own: a case a row, its headline and metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchrack.reports.layout import (
    BATCH,
    EMPTY,
    Cell,
    Column,
    Table,
    in_order,
    key_columns,
    listed,
)
from benchrack.reports.notes import common_notes, single_start_notes
from benchrack.reports.numbers import figure, half_width
from benchrack.reports.pooling import Pool, modes_of_starts, over_starts, pool
from benchrack.reports.records import Results
from benchrack.statistics.interval import Interval
from benchrack.vocabulary.scenarios import Metric, Scenario


def scenario_table(results: Results, scenario: Scenario) -> Table | None:
    """None where the scenario was not asked for."""
    pools = in_order(pool(results, scenario.name))
    if not pools:
        return None
    metrics = (scenario.headline, *scenario.metrics)
    keys = key_columns(pools)
    if len({p.case.batch_size for p in pools}) > 1:
        keys.append(BATCH)
    single = single_start_notes(pools) if scenario.starts else []
    return listed(
        f"{scenario.name.replace('_', ' ').capitalize()}: {scenario.question}",
        pools,
        keys,
        [_column(metric) for metric in metrics],
        notes=[*single, *common_notes(pools)],
        remarks=lambda p: _remarks(p, scenario.headline),
    )


def _column(metric: Metric) -> Column:
    def cell(p: Pool) -> Cell:
        found = _intervals(p, metric)
        if not found:
            return EMPTY
        pooled = over_starts(found)
        return Cell(text=figure(pooled.value), spread=half_width(pooled), value=pooled.value)

    return Column(header=metric.header, cell=cell)


def _intervals(p: Pool, metric: Metric) -> Sequence[Interval]:
    """The figure of each start that has it."""
    found = [metric.of(start.measurement.result) for start in p.starts]
    return [one for one in found if one is not None and math.isfinite(one.value)]


def _remarks(p: Pool, metric: Metric) -> list[str]:
    return modes_of_starts([one.value for one in _intervals(p, metric)], metric.header)
