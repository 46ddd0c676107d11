"""The throughput table: images per second by model and backend, a column for each batch size."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from benchrack.reports.layout import (
    EMPTY,
    Cell,
    Footnotes,
    Table,
    common_notes,
    in_order,
    key_columns,
    missed,
    single_start_notes,
    words,
)
from benchrack.reports.numbers import figure, half_width
from benchrack.reports.pooling import (
    Pool,
    modes_of_starts,
    over_starts,
    pool,
    rates_of,
    sign_of,
)
from benchrack.reports.records import Results

NOTE = "Median of rounds, with ± the half width of its 95 % interval."


def throughput_table(results: Results) -> Table | None:
    """None where no throughput was asked for."""
    pools = in_order(pool(results, "throughput"))
    if not pools:
        return None
    columns = key_columns(pools)
    headers = [column.header for column in columns]
    rows: dict[tuple[Cell, ...], dict[int, Pool]] = {}
    for p in sorted(pools, key=lambda p: not p.starts):  # those without a measurement find a row
        key = tuple(column.cell(p) for column in columns)
        if not p.starts:
            key = next((k for k, row in rows.items() if _belongs(p, row)), key)
        rows.setdefault(key, {})[p.case.batch_size] = p

    order = {id(p): i for i, p in enumerate(pools)}
    by_appearance = sorted(rows, key=lambda key: min(order[id(p)] for p in rows[key].values()))
    several = any(len(p.starts) > 1 for p in pools)
    batches = sorted({p.case.batch_size for p in pools})
    footnotes = Footnotes()
    return Table(
        title="Throughput, images/s",
        headers=(*headers, *(["starts"] if several else []), *(f"batch {b}" for b in batches)),
        keys=len(headers) + several,
        rows=tuple(
            (
                *key,
                *([_starts(list(rows[key].values()))] if several else []),
                *(_cell(rows[key].get(b), footnotes) for b in batches),
            )
            for key in by_appearance
        ),
        notes=(NOTE, *single_start_notes(pools), *common_notes(pools)),
        footnotes=footnotes.texts,
    )


def _belongs(p: Pool, row: Mapping[int, Pool]) -> bool:
    """Whether a case without a measurement, so without an engine, is the gap in a row."""
    wanted = dataclasses.replace(p.case, batch_size=0)
    return p.case.batch_size not in row and any(
        (p.machine, p.nodes) == (q.machine, q.nodes)
        and wanted == dataclasses.replace(q.case, batch_size=0)
        for q in row.values()
    )


def _cell(p: Pool | None, footnotes: Footnotes) -> Cell:
    if p is None:
        return EMPTY
    rates = rates_of(p.starts)
    notes = footnotes.of(p, remarks=modes_of_starts([rate.value for rate in rates], "images/s"))
    if not p.starts:
        return missed(p, notes)
    if not rates:
        return Cell(notes=notes, invalid=bool(p.reasons))
    rate = over_starts(rates)
    return Cell(
        text=figure(rate.value),
        spread=half_width(rate, sign_of(p.starts)),
        value=rate.value,
        notes=notes,
        invalid=bool(p.reasons),
    )


def _starts(pools: Sequence[Pool]) -> Cell:
    counts = sorted({len(p.starts) for p in pools if p.starts})
    return words(f"{counts[0]}–{counts[-1]}" if len(counts) > 1 else str(*counts))
