"""How throughput grows: with the number of devices, and with the batch.

Each figure is relative to the one-device, or batch-1, figure of the same run: another run may have
had another clock, another driver or another neighbour.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from benchrack.reports.layout import (
    BATCH,
    DEVICES,
    EMPTY,
    Cell,
    Column,
    Footnotes,
    Table,
    device,
    in_order,
    key_columns,
    listed,
)
from benchrack.reports.matrix import by_batch
from benchrack.reports.notes import common_notes
from benchrack.reports.numbers import percent
from benchrack.reports.pooling import Pool, newest, nodes_of, pool
from benchrack.reports.power import PER_WATT, PER_WATT_ABOVE_IDLE, RATE, column, median_of
from benchrack.reports.ratios import (
    doubtful,
    marked,
    per_watt_ratio_cell,
    rate_ratio,
    rate_ratio_cell,
)
from benchrack.reports.records import Record, Results
from benchrack.vocabulary.cases import Case

# From so many batch sizes on their ratios are worth a table of their own.
MANY_BATCHES = 4


def device_scaling_table(results: Results) -> Table | None:
    """Throughput versus device count; None where nothing was measured on several counts."""
    pools = _of_several_counts(pool(results, "throughput"))
    if not pools:
        return None

    def one(p: Pool) -> Pool:
        return baseline(results, p, dataclasses.replace(p.case, device_count=1))

    keys = [c for c in key_columns(pools) if c.header != "devices"]
    columns = [
        RATE,
        Column(header="speed-up", cell=lambda p: marked(rate_ratio_cell(p, one(p)), p, one(p))),
        Column(
            header="efficiency %", cell=lambda p: marked(_efficiency_cell(p, one(p)), p, one(p))
        ),
        column("images/s/W", PER_WATT, energy=True),
        column("above idle", PER_WATT_ABOVE_IDLE, energy=True),
        Column(
            header="relative",
            cell=lambda p: marked(per_watt_ratio_cell(p, one(p)), p, one(p)),
            energy=True,
        ),
        Column(header="skew %", cell=_skew_cell),
    ]
    return listed(
        "Scaling over devices",
        pools,
        [*keys, BATCH, DEVICES],
        columns,
        notes=[*_notes(pools), *common_notes(pools, energy=True)],
        remarks=lambda p: _remarks(p, one(p)),
    )


def batch_scaling_table(results: Results) -> Table | None:
    """Throughput relative to batch 1; None where few batch sizes were measured."""
    note = "Images/s ÷ those at batch 1 in the same run; ± has the uncertainty of both."
    return _by_batch(results, "Throughput relative to batch 1", rate_ratio_cell, note)


def batch_power_table(results: Results) -> Table | None:
    """Images/s per watt above idle relative to batch 1; None where few were measured."""
    title = "Images/s per watt above idle, relative to batch 1"
    note = "Images/s per watt above idle ÷ that at batch 1 in the same run."
    return _by_batch(results, title, per_watt_ratio_cell, note, energy=True)


def baseline(results: Results, p: Pool, case: Case) -> Pool:
    """Another case on the same engine, in the runs that a pool is of, and in those that resume them
    or that they resume; without starts where it was not measured there."""
    if not p.starts:
        return Pool(case=case, machine=p.machine, run=p.run)
    runs = _resuming_each_other(results, {start.run.name for start in p.starts})
    nodes = p.nodes if case.device_count > 1 else 1
    found = [
        record
        for record in results.records
        if record.measurement.case == case
        and (record.run.machine, nodes_of(record.measurement)) == (p.machine, nodes)
        and record.run.name in runs
        and _engine(record) == _engine(p.starts[0])
        and record.measurement.engine.version == p.starts[0].measurement.engine.version
    ]
    return newest(found) if found else Pool(case=case, machine=p.machine, run=p.run)


def _resuming_each_other(results: Results, names: Iterable[str]) -> set[str]:
    """The names of some runs, and of all that are one sweep with them: a run that resumes another
    was made under the same conditions."""
    runs = {record.run for record in results.records} | {miss.run for miss in results.misses}
    found = set(names)
    while (
        more := {
            name
            for run in runs
            if not found.isdisjoint((run.name, *run.resumes))
            for name in (run.name, *run.resumes)
        }
        - found
    ):
        found |= more
    return found


def _engine(record: Record) -> tuple[str, str, str]:
    measurement = record.measurement
    transfer = measurement.steadiness.transfer if measurement.steadiness else ""
    return measurement.engine.name, measurement.engine.device, transfer


def _of_several_counts(pools: Iterable[Pool]) -> list[Pool]:
    """Those of which the same was measured on two device counts or more, counts after each
    other."""
    groups: dict[object, list[Pool]] = {}
    for p in in_order(p for p in pools if p.starts):
        key = (p.machine, dataclasses.replace(p.case, device_count=1))
        groups.setdefault(key, []).append(p)
    several = [g for g in groups.values() if len({p.case.device_count for p in g}) > 1]
    return [p for group in several for p in group]


def _notes(pools: Sequence[Pool]) -> list[str]:
    notes = [
        "Speed-up: images/s ÷ those of one device in the same run; efficiency: that ÷ devices."
    ]
    if any(device(p) == "cpu" for p in pools):
        notes.append(
            "CPU devices share its cores, so that one device may have as many as all of several: "
            "their efficiency is speed-up ÷ how many times the threads of one they have together."
        )
    if any(median_of(p.starts, PER_WATT) for p in pools):
        notes.append(
            "Images/s per watt: of the mean power, and of what it is above idle; relative: the "
            "latter ÷ that of one device."
        )
    if any(start.measurement.world for p in pools for start in p.starts):
        notes.append("Skew: by how much the fastest device's time is below the slowest's.")
    return notes


def _remarks(p: Pool, one: Pool) -> list[str]:
    remarks = []
    if p.case.device_count > 1 and not one.starts:
        remarks.append("one device was not measured in the same run: there is no speed-up")
    if doubtful(p, one):
        remarks.append("relative to one device, whose figure is not valid")
    elif doubtful(p, one, energy=True):
        remarks.append("per watt relative to one device, whose energy is not valid")
    for start in p.starts[:1]:
        world, placement = start.measurement.world, start.measurement.placement
        if places := "; ".join(world.placement if world else filter(None, [placement])):
            devices = "1 device" if p.case.device_count == 1 else f"{p.case.device_count} devices"
            remarks.append(f"{devices}: {places}")
    return remarks


def _skew_cell(p: Pool) -> Cell:
    skew = median_of(p.starts, lambda m: m.world.skew if m.world else None)
    return EMPTY if skew is None else Cell(text=percent(skew), value=100 * skew)


def _efficiency_cell(p: Pool, one: Pool) -> Cell:
    ratio = rate_ratio(p, one)
    if ratio is None:
        return EMPTY
    share = ratio.value / _more(p, one)
    return Cell(text=percent(share), value=100 * share, invalid=doubtful(p, one))


def _more(p: Pool, one: Pool) -> float:
    """How many times the baseline's devices a pool has; of CPU devices, its threads."""
    own, base = p.starts[0].measurement.engine, one.starts[0].measurement.engine
    threads = own.threads / base.threads if own.threads and base.threads else 1.0
    return p.case.device_count * (threads if own.device == "cpu" else 1.0)


def _by_batch(
    results: Results,
    title: str,
    ratio: Callable[[Pool, Pool], Cell],
    note: str,
    *,
    energy: bool = False,
) -> Table | None:
    """Ratios to batch 1, of what was measured at many batch sizes; whether they are of energy."""

    def of_batch_1(p: Pool) -> Cell:
        return ratio(p, baseline(results, p, dataclasses.replace(p.case, batch_size=1)))

    def cell(p: Pool, footnotes: Footnotes) -> Cell:
        found = of_batch_1(p)
        if found.empty:
            return found
        remarks = ["relative to batch 1, whose figure is not valid"] * found.invalid
        notes = footnotes.of(p, remarks=remarks, energy=energy)
        invalid = found.invalid or p.doubtful(energy=energy)
        return dataclasses.replace(found, notes=notes, invalid=invalid)

    rows: dict[object, list[Pool]] = {}
    for p in pool(results, "throughput"):
        if p.starts and not of_batch_1(p).empty:
            case = dataclasses.replace(p.case, batch_size=1)
            rows.setdefault((p.machine, p.nodes, case, _engine(p.starts[0])), []).append(p)
    shown = [p for row in rows.values() if len(row) >= MANY_BATCHES for p in row]
    if not shown:
        return None
    return by_batch(title, shown, cell, notes=[note, *common_notes(shown, energy=energy)])
