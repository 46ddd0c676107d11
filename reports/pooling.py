"""Several records of the same case: which of them a table shows.

The rule: the starts of one run are pooled (the median of starts); of several runs of the same case
on the same machine the newest is shown, and the table says so. Nothing is averaged over runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrack.reports.records import Miss, Record, Results, Run
from benchrack.results import Interval
from benchrack.statistics import median_interval
from benchrack.types import Case, Engine, Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """All starts of one case in one run, on one engine; none where it gave no measurement.

    `misses` are the starts that failed, and failures of newer runs. `older` counts the runs whose
    measurements of this case are not shown.
    """

    case: Case
    machine: str
    run: Run
    starts: tuple[Record, ...] = ()
    misses: tuple[Miss, ...] = ()
    older: int = 0

    @property
    def engine(self) -> Engine | None:
        return self.starts[0].measurement.engine if self.starts else None

    @property
    def transfer(self) -> str:
        """Whether copies are inside the time (`include`) or not (`exclude`); empty: not said."""
        steadiness = self.starts[0].measurement.steadiness if self.starts else None
        return steadiness.transfer if steadiness else ""

    @property
    def data(self) -> str:
        """The data set that was used."""
        return self.starts[0].measurement.preparation.data_used if self.starts else ""

    @property
    def weights(self) -> str:
        """The weights that were used."""
        return self.starts[0].measurement.preparation.weights_used if self.starts else ""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the figures of this pool must not be quoted, each reason once."""
        return tuple(dict.fromkeys(r for s in self.starts for r in s.measurement.reasons))


def pool(results: Results, scenario: Scenario) -> list[Pool]:
    """What there is to show of a scenario, in the order of its first appearance."""
    groups: dict[tuple[object, ...], list[Record]] = {}
    for record in results.records:
        if record.measurement.case.scenario == scenario:
            groups.setdefault(_identity(record), []).append(record)
    missed: dict[tuple[str, Case], list[Miss]] = {}
    for miss in results.misses:
        if miss.outcome.case.scenario == scenario:
            missed.setdefault((miss.run.machine, miss.outcome.case), []).append(miss)

    measured = [_newest(group, missed) for group in groups.values()]
    seen = {(p.machine, p.case) for p in measured}
    unmeasured = [
        Pool(case=case, machine=machine, run=found[-1].run, misses=_of_run(found, found[-1].run))
        for (machine, case), found in missed.items()
        if (machine, case) not in seen
    ]
    return [*measured, *unmeasured]


def _identity(record: Record) -> tuple[object, ...]:
    """What must be equal for two records to be measurements of the same thing."""
    measurement = record.measurement
    transfer = measurement.steadiness.transfer if measurement.steadiness else ""
    engine = measurement.engine
    return record.run.machine, measurement.case, engine.name, engine.device, transfer


def _newest(group: Sequence[Record], missed: dict[tuple[str, Case], list[Miss]]) -> Pool:
    run, case = group[-1].run, group[-1].measurement.case
    misses = missed.get((run.machine, case), [])
    return Pool(
        case=case,
        machine=run.machine,
        run=run,
        starts=tuple(r for r in group if r.run == run),
        misses=tuple(m for m in misses if m.run == run or _newer_fault(m, run)),
        older=len({r.run for r in group}) - 1,
    )


def _newer_fault(miss: Miss, run: Run) -> bool:
    """Whether a newer run tried the case in vain; one that did not come to it says nothing."""
    tried = miss.outcome.status not in ("interrupted", "not-run")
    return tried and miss.run.started > run.started


def _of_run(misses: Sequence[Miss], run: Run) -> tuple[Miss, ...]:
    return tuple(m for m in misses if m.run == run)


def over_starts(intervals: Sequence[Interval]) -> Interval:
    """One start: its own interval. Several: the median of starts, with its 95 % interval from six
    on, and below that the range of the starts."""
    if len(intervals) == 1:
        return intervals[0]
    values = [i.value for i in intervals]
    pooled = median_interval(values)
    if pooled.low is None:
        return Interval(value=pooled.value, low=min(values), high=max(values))
    return pooled
