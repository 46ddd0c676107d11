"""Several records of the same case: which of them a table shows.

The rule: the starts of one run are pooled (the median of starts); of several runs of the same case
on the same machine the newest is shown, and the table says so. Nothing is averaged over runs, but a
run and those that it resumes are one: it measured what they lack.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchrack.reports.numbers import figure, spread_sign
from benchrack.reports.records import Miss, Record, Results, Run
from benchrack.statistics.interval import Interval
from benchrack.statistics.order_statistics import MINIMUM_FOR_MEDIAN, median_interval, modes
from benchrack.vocabulary.backends import Engine
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.results import Measurement

NUMBERS = {2: "two", 3: "three", 4: "four"}
NONE_MISSED: Mapping[tuple[object, ...], Sequence[Miss]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """All starts of one case in one run and those that it resumes, on one engine; none where the
    case gave no measurement.

    `misses` are the starts that failed, and failures of newer runs. `older` counts the runs whose
    measurements of this case are not shown. `repeated` says whether fresh processes repeat it.
    """

    case: Case
    machine: str
    run: Run
    starts: tuple[Record, ...] = ()
    misses: tuple[Miss, ...] = ()
    older: int = 0
    repeated: bool = True

    @property
    def engine(self) -> Engine | None:
        return self.starts[0].measurement.engine if self.starts else None

    @property
    def transfer(self) -> str:
        """Whether transfers are inside the time (`include`) or not (`exclude`); empty: not said."""
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
    def nodes(self) -> int:
        """On how many machines it was measured, or was to be."""
        return nodes_of(self.starts[0].measurement) if self.starts else _nodes(self.run, self.case)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why no figure of this pool must be quoted, each reason once."""
        own = dict.fromkeys(r for s in self.starts for r in s.measurement.other_reasons)
        return (*own, *_too_few_starts(self))

    @property
    def energy_reasons(self) -> tuple[str, ...]:
        """Why its energy and power must not be quoted, where the other figures may, each once."""
        return tuple(dict.fromkeys(r for s in self.starts for r in s.measurement.energy_reasons))

    def doubtful(self, *, energy: bool = False) -> bool:
        """Whether a figure of this pool must not be quoted, be it of energy or not."""
        return bool(self.reasons or (energy and self.energy_reasons))


def _too_few_starts(pool: Pool) -> list[str]:
    """Against figures that go out."""
    if not (pool.starts and pool.run.publish and pool.repeated):
        return []
    valid = sum(not start.measurement.other_reasons for start in pool.starts)
    if valid >= MINIMUM_FOR_MEDIAN:
        return []
    return [f"too-few-starts: a published number needs {MINIMUM_FOR_MEDIAN}, and {valid} are valid"]


def pool(results: Results, scenario: str) -> list[Pool]:
    """What there is to show of a scenario, in the order of its first appearance."""
    groups: dict[tuple[object, ...], list[Record]] = {}
    for record in results.records:
        if record.measurement.case.scenario == scenario:
            groups.setdefault(_identity(record), []).append(record)
    missed: dict[tuple[object, ...], list[Miss]] = {}
    for miss in results.misses:
        if miss.outcome.case.scenario == scenario:
            missed.setdefault(_planned(miss.run, miss.outcome.case), []).append(miss)

    measured = [newest(group, missed) for group in groups.values()]
    seen = {_planned(p.run, p.case) for p in measured}
    unmeasured = [
        Pool(
            case=found[-1].outcome.case,
            machine=found[-1].run.machine,
            run=found[-1].run,
            misses=_of_run(found, found[-1].run),
        )
        for planned, found in missed.items()
        if planned not in seen
    ]
    asked = results.scenarios.get(scenario)
    repeated = asked is None or asked.starts
    return [dataclasses.replace(p, repeated=repeated) for p in (*measured, *unmeasured)]


def _planned(run: Run, case: Case) -> tuple[object, ...]:
    """What must be equal for a miss to be of the same case."""
    return run.machine, case, _nodes(run, case)


def _nodes(run: Run, case: Case) -> int:
    """On how many machines a run measures a case; one device is node 0's alone."""
    return run.nodes if case.device_count > 1 else 1


def _identity(record: Record) -> tuple[object, ...]:
    """What must be equal for two records to be measurements of the same thing."""
    measurement = record.measurement
    transfer = measurement.steadiness.transfer if measurement.steadiness else ""
    engine = measurement.engine
    return (
        *(record.run.machine, measurement.case, nodes_of(measurement)),
        *(engine.name, engine.device, transfer),
    )


def nodes_of(measurement: Measurement) -> int:
    """On how many machines it was measured."""
    return measurement.world.nodes if measurement.world else 1


def newest(
    group: Sequence[Record], missed: Mapping[tuple[object, ...], Sequence[Miss]] = NONE_MISSED
) -> Pool:
    """What is shown of records of the same thing, older ones first, and of what was missed."""
    run, case = group[-1].run, group[-1].measurement.case
    misses = missed.get(_planned(run, case), [])
    starts = _with_resumed(group)
    return Pool(
        case=case,
        machine=run.machine,
        run=run,
        starts=starts,
        misses=tuple(m for m in misses if _concerns(m, run, group)),
        older=len({r.run for r in group} - {r.run for r in starts}),
    )


def _with_resumed(group: Sequence[Record]) -> tuple[Record, ...]:
    """The starts of the newest run, and of runs that it resumes those that it did not repeat."""
    version = group[-1].measurement.engine.version
    parts = {group[-1].run.name}
    newer: set[int] = set()
    starts: list[Record] = []
    for run, found in itertools.groupby(reversed(group), key=lambda record: record.run):
        records = [r for r in found if r.measurement.engine.version == version]
        if run.name in parts:
            parts |= set(run.resumes)
            starts += [r for r in records if r.measurement.start not in newer]
            newer |= {r.measurement.start for r in records}
    return tuple(reversed(starts))


def _concerns(miss: Miss, run: Run, group: Sequence[Record]) -> bool:
    """Whether a case that was measured in `run` has a miss to tell of: another start of that run,
    or a newer run that tried in vain. One that did not come to it, or resumed it, says nothing."""
    status = miss.outcome.status
    if status == "resumed" and any(r.run.name in miss.run.resumes for r in group):
        return False
    tried = status not in ("interrupted", "not-run")
    return miss.run == run or (tried and miss.run.started > run.started)


def _of_run(misses: Sequence[Miss], run: Run) -> tuple[Miss, ...]:
    return tuple(m for m in misses if m.run == run)


def rates_of(starts: Sequence[Record]) -> list[Interval]:
    """Images/s of each start that measured them."""
    found = [getattr(start.measurement.result, "images_per_s", None) for start in starts]
    return [rate for rate in found if rate is not None and math.isfinite(rate.value)]


def sign_of(*figures: Sequence[Record]) -> str:
    """What stands before the spread of a figure made of images/s, each of some starts: `~` where
    one is of a single start whose interval is none (see `spread_sign`)."""
    singles = [starts[0].measurement for starts in figures if len(starts) == 1]
    return "~" if "~" in map(spread_sign, singles) else "±"


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


def modes_of_starts(values: Sequence[float], unit: str) -> list[str]:
    """A remark where starts fall into modes: two groups or more, apart, of at least two starts."""
    found = modes([value for value in values if value > 0])
    if sum(count > 1 for _, count in found) < 2:
        return []
    (value, count), *others = reversed(found)
    parts = [f"{count} start{'s' if count > 1 else ''} near {figure(value, 3)}"]
    parts += [f"{count} near {figure(value, 3)}" for value, count in others]
    number = NUMBERS.get(len(found), str(len(found)))
    return [f"{number} modes: {', '.join(parts)} {unit}"]
