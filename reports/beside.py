"""One's own figures beside published ones of the same model, precision and batch.

What others printed stands in a column of its own, headed 'published', with its source as a
footnote: it was measured elsewhere, with other software, and is in no other table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchrack.reports.latency import percentile_of
from benchrack.reports.layout import (
    EMPTY,
    Cell,
    Footnotes,
    Table,
    case_keys,
    figure_cell,
    in_order,
    words,
)
from benchrack.reports.notes import PUBLISHED, common_notes
from benchrack.reports.numbers import percent
from benchrack.reports.pooling import Pool, over_starts, pool, rates_of
from benchrack.reports.power import RATE
from benchrack.reports.published import Point, built_in
from benchrack.reports.ratios import per_watt_ratio_cell, rate_ratio_cell
from benchrack.reports.records import Results
from benchrack.reports.scaling import baseline
from benchrack.statistics.interval import Interval
from benchrack.vocabulary.cases import Case

Axis = Literal["device_count", "batch_size"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of one's own cases, be it of energy or not, and the published points of the same
    with as many decimals as their sources have; None: as they are."""

    name: str
    own: Callable[[Pool], Cell]
    points: Sequence[Point]
    decimals: int | None = None
    energy: bool = False


def published_tables(results: Results, points: Sequence[Point] | None = None) -> list[Table]:
    """Throughput, its scaling, latency and accuracy beside `points`, by default those that come
    with Benchrack; a table for each that has something in common with them."""
    points = built_in() if points is None else points
    throughput, latency, accuracy = (
        in_order(p for p in pool(results, scenario) if p.starts)
        for scenario in ("throughput", "latency", "accuracy")
    )
    tables = [
        _table("Throughput", throughput, [_rates(points)]),
        _table("Scaling over devices", throughput, _ratios(results, points, "device_count")),
        _table("Scaling over batches", throughput, _ratios(results, points, "batch_size")),
        _table("Latency", latency, _latencies(points)),
        _table("Accuracy", accuracy, _shares(points)),
    ]
    return [table for table in tables if table is not None]


def _rates(points: Iterable[Point]) -> Figure:
    return Figure(name="images/s", own=RATE.cell, points=_of("images_per_s", points))


def _ratios(results: Results, points: Sequence[Point], axis: Axis) -> list[Figure]:
    """Speed-up, and images/s per watt, relative to one device, or to batch 1."""

    def one(p: Pool) -> Pool:
        return baseline(results, p, _first(p.case, axis))

    def ratio(p: Pool) -> Cell:
        return rate_ratio_cell(p, one(p))

    def per_watt(p: Pool) -> Cell:
        return per_watt_ratio_cell(p, one(p))

    rates = [*_of("images_per_s", points), *_of("images_per_s_relative", points)]
    per_watts = _of("images_per_s_per_w_above_idle_relative", points)
    return [
        Figure(name="images/s", own=ratio, points=relative(rates, axis), decimals=2),
        Figure(
            name="images/s/W above idle",
            own=per_watt,
            points=relative(per_watts, axis),
            decimals=2 if axis == "device_count" else 1,
            energy=True,
        ),
    ]


def _first(case: Case, axis: Axis) -> Case:
    if axis == "batch_size":
        return dataclasses.replace(case, batch_size=1)
    return dataclasses.replace(case, device_count=1)


def _latencies(points: Sequence[Point]) -> list[Figure]:
    def own(of: Callable[[Any], Interval | None]) -> Callable[[Pool], Cell]:
        def cell(p: Pool) -> Cell:
            found = percentile_of(p, of)
            if found is None:
                return EMPTY
            return figure_cell(found)

        return cell

    names: list[tuple[str, str, Callable[[Any], Interval | None]]] = [
        ("p50 ms", "batch_ms", lambda latency: latency.p50),
        ("p90 ms", "latency_p90_ms", lambda latency: latency.p90),
    ]
    return [
        Figure(name=name, own=own(of), points=_of(quantity, points), decimals=3)
        for name, quantity, of in names
    ]


def _shares(points: Sequence[Point]) -> list[Figure]:
    def cell(of: Callable[[Any], Cell]) -> Callable[[Pool], Cell]:
        def own(p: Pool) -> Cell:
            found = p.starts[-1].measurement.result
            return of(found) if found else EMPTY

        return own

    def share(found: Interval | None) -> Cell:
        return Cell(text=percent(found.value), value=100 * found.value) if found else EMPTY

    def drop(accuracy: Any) -> Cell:
        points = accuracy.top1_drop_points
        return EMPTY if points is None else Cell(text=f"{points:.2f}", value=points)

    names: list[tuple[str, str, Callable[[Any], Cell]]] = [
        ("top-1 %", "top1_percent", lambda a: share(a.top1)),
        ("top-5 %", "top5_percent", lambda a: share(a.top5)),
        ("top-1 drop", "top1_drop_points", drop),
    ]
    return [
        Figure(name=name, own=cell(of), points=_of(quantity, points), decimals=2)
        for name, quantity, of in names
    ]


def _of(quantity: str, points: Iterable[Point]) -> list[Point]:
    return [point for point in points if point.quantity == quantity]


def relative(points: Iterable[Point], axis: Axis) -> list[Point]:
    """Points relative to the one of their series where `axis` is 1; series without it are left
    out, and so is that point. What was not printed so is computed: confidence D."""
    series: dict[Point, list[Point]] = {}
    for point in points:
        series.setdefault(_without(point, axis), []).append(point)
    found = []
    for one_series in series.values():
        base = next((p.value for p in one_series if getattr(p, axis) == 1), None)
        if base is not None:
            found += [_over(p, base) for p in one_series if getattr(p, axis) != 1]
    return found


def _without(point: Point, axis: Axis) -> Point:
    """What the points of one series have in common."""
    if axis == "batch_size":
        return dataclasses.replace(point, value=None, batch_size=None)
    return dataclasses.replace(point, value=None, device_count=None)


def _over(point: Point, base: float) -> Point:
    if base == 1 or point.value is None:
        return point
    where = ", ".join(filter(None, [point.where, "computed"]))
    return dataclasses.replace(point, value=point.value / base, confidence="D", where=where)


def _table(title: str, pools: Sequence[Pool], figures: Sequence[Figure]) -> Table | None:
    best = _best_batches(pools)
    rows = [
        (p, f, own, point)
        for p in pools
        for f in figures
        if not (own := f.own(p)).empty
        for point in f.points
        if _same(p, point, best)
    ]
    if not rows:
        return None
    footnotes = Footnotes()
    shown = list({id(p): p for p, _, _, _ in rows}.values())
    keys = case_keys(shown, batch=True)
    several = len({f.name for _, f, _, _ in rows}) > 1
    return Table(
        title=f"{title} beside published" + ("" if several else f", {rows[0][1].name}"),
        headers=(
            *(key.header for key in keys),
            *(["figure"] if several else []),
            *("measured", "published", "published: on"),
        ),
        keys=len(keys),
        rows=tuple(
            (
                *(key.cell(p) for key in keys),
                *([words(f.name)] if several else []),
                _measured(own, p, f.energy, footnotes),
                _printed(point, f, footnotes),
                words(_cards(point)),
            )
            for p, f, own, point in rows
        ),
        notes=(PUBLISHED, *common_notes(shown, energy=any(f.energy for f in figures))),
        footnotes=footnotes.texts,
    )


def _measured(own: Cell, p: Pool, energy: bool, footnotes: Footnotes) -> Cell:
    remarks = ["relative to another figure, which is not valid"] * own.invalid
    notes = footnotes.of(p, remarks=remarks, energy=energy)
    return dataclasses.replace(own, notes=notes, invalid=own.invalid or p.doubtful(energy=energy))


def _same(p: Pool, point: Point, best: set[int]) -> bool:
    """Whether a point is of a pool's model, precision, batch and device count, as far as these
    matter and were printed. A batch that was not printed was chosen freely: so is one's own. A
    precision that was not printed may be any."""
    precision = p.starts[0].measurement.preparation.asked_precision
    if p.case.model != point.model or point.precision not in ("", precision):
        return False
    if p.case.scenario == "accuracy":
        return True
    batch_fits = (
        id(p) in best if point.batch_size is None else p.case.batch_size == point.batch_size
    )
    return batch_fits and point.device_count in (None, p.case.device_count)


def _best_batches(pools: Iterable[Pool]) -> set[int]:
    """Of each case with several batch sizes the fastest."""
    fastest: dict[object, tuple[float, int]] = {}
    for p in pools:
        if rates := rates_of(p.starts):
            key = (p.machine, p.nodes, dataclasses.replace(p.case, batch_size=1))
            found = (over_starts(rates).value, id(p))
            fastest[key] = max(found, fastest.get(key, found))
    return {place for _, place in fastest.values()}


def _printed(point: Point, figure_of: Figure, footnotes: Footnotes) -> Cell:
    note = (footnotes.number(point.citation),)
    if point.value is None:
        return Cell(text="OOM", value="out-of-memory", notes=note)
    places = figure_of.decimals
    text = f"{point.value:.10g}" if places is None else f"{point.value:.{places}f}"
    return Cell(text=text, value=point.value, notes=note)


def _cards(point: Point) -> str:
    count = f"{point.device_count}× " if (point.device_count or 1) > 1 else ""
    return f"{count}{point.card}" if point.card else ""
