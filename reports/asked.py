"""The table of a scenario that has none of its own: a case a row, its headline and metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchrack.reports.layout import EMPTY, Column, Table, case_keys, figure_cell, listed, ordered
from benchrack.reports.notes import common_notes, single_start_notes
from benchrack.reports.pooling import Pool, modes_of_starts, over_starts
from benchrack.reports.records import Results
from benchrack.statistics.interval import Interval
from benchrack.vocabulary.scenarios import Metric, Scenario


def scenario_table(results: Results, scenario: Scenario) -> Table | None:
    """None where the scenario was not asked for."""
    pools = ordered(results, scenario.name)
    if not pools:
        return None
    metrics = (scenario.headline, *scenario.metrics)
    single = single_start_notes(pools) if scenario.starts else []
    return listed(
        f"{scenario.name.replace('_', ' ').capitalize()}: {scenario.question}",
        pools,
        case_keys(pools),
        [_column(metric) for metric in metrics],
        notes=[*single, *common_notes(pools)],
        remarks=lambda p: _remarks(p, scenario.headline),
    )


def _column(metric: Metric) -> Column:
    return Column(
        header=metric.header,
        cell=lambda p: figure_cell(over_starts(f)) if (f := _intervals(p, metric)) else EMPTY,
    )


def _intervals(p: Pool, metric: Metric) -> Sequence[Interval]:
    """The figure of each start that has it."""
    found = [metric.of(start.measurement.result) for start in p.starts]
    return [one for one in found if one is not None and math.isfinite(one.value)]


def _remarks(p: Pool, metric: Metric) -> list[str]:
    return modes_of_starts([one.value for one in _intervals(p, metric)], metric.header)
