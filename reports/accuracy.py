"""The accuracy-versus-precision table: what a backend's arithmetic costs in right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from benchrack.reports.layout import EMPTY, Cell, Column, Table, case_keys, listed, ordered, whole
from benchrack.reports.notes import common_notes
from benchrack.reports.numbers import percent, percent_bounds
from benchrack.reports.pooling import Pool
from benchrack.reports.records import Results
from benchrack.statistics.interval import Interval

NAMED_FILES = 3


def accuracy_table(results: Results) -> Table | None:
    """None where no accuracy was asked for."""
    pools = ordered(results, "accuracy")
    if not pools:
        return None
    columns = [
        Column(header="N", cell=lambda p: whole(a.images if (a := _accuracy(p)) else None)),
        _share("top-1", lambda a: a.top1),
        _share("top-5", lambda a: a.top5, bounds=False),
        _number("drop", lambda a: a.top1_drop_points, 2),
        _share("agree", lambda a: a.agreement, bounds=False),
        _number("cosine", lambda a: a.logit_cosine, 5),
    ]
    keys = case_keys(pools)
    notes = _notes(pools, named=any(key.header == "weights" for key in keys))
    return listed("Accuracy versus precision", pools, keys, columns, notes=notes, remarks=_remarks)


def _accuracy(p: Pool) -> Any:
    """Accuracy is not a matter of time: of several starts the last speaks for all."""
    return p.starts[-1].measurement.result if p.starts else None


def _share(header: str, of: Callable[[Any], Interval | None], *, bounds: bool = True) -> Column:
    def cell(p: Pool) -> Cell:
        accuracy = _accuracy(p)
        share = of(accuracy) if accuracy else None
        if share is None or not math.isfinite(share.value):
            return EMPTY
        spread = percent_bounds(share) if bounds else ""
        return Cell(text=percent(share.value), spread=spread, value=100 * share.value)

    return Column(header=header, cell=cell)


def _number(header: str, of: Callable[[Any], float | None], decimals: int) -> Column:
    def cell(p: Pool) -> Cell:
        accuracy = _accuracy(p)
        value = of(accuracy) if accuracy else None
        if value is None or not math.isfinite(value):
            return EMPTY
        return Cell(text=f"{value:.{decimals}f}", value=value)

    return Column(header=header, cell=cell)


def _remarks(p: Pool) -> list[str]:
    accuracy = _accuracy(p)
    if accuracy is None:
        return []
    remarks = []
    if unreadable := accuracy.unreadable:
        named = ", ".join(unreadable[:NAMED_FILES])
        more = len(unreadable) - NAMED_FILES
        rest = f" and {more} more" if more > 0 else ""
        images = "image" if len(unreadable) == 1 else "images"
        remarks.append(f"{len(unreadable)} {images} could not be read: {named}{rest}")
    if len({start.measurement.result for start in p.starts}) > 1:
        remarks.append("the starts differ in accuracy; the last is shown")
    return remarks


def _notes(pools: list[Pool], *, named: bool) -> list[str]:
    """What the figures are, and of which weights where no column names them."""
    notes = [
        "top-1 [95 % interval], top-5, agree (the same top-1 as FP32): % of N images.",
        "drop: FP32's top-1 less this one, in points; cosine: of the logits and FP32's.",
    ]
    used = dict.fromkeys((p.case.model, p.weights) for p in pools if p.weights)
    if used and not named:
        weights = "; ".join(f"{model}: {weights}" for model, weights in used)
        notes.append(f"Weights: {weights}.")
    if any(not s.measurement.preparation.trained for p in pools for s in p.starts):
        notes.append("Untrained weights have no accuracy, only their agreement with FP32.")
    return notes + common_notes(pools)
