"""Tables with a column for each batch size, and a row for what else tells their cases apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from benchrack.reports.layout import EMPTY, Cell, Footnotes, Table, in_order, key_columns, words
from benchrack.reports.pooling import Pool


def by_batch(
    title: str,
    pools: Iterable[Pool],
    cell: Callable[[Pool, Footnotes], Cell],
    *,
    notes: Iterable[str],
) -> Table:
    """A table of one cell for each pool. A case without a measurement, so without an engine, stands
    in the gap of the row that lacks it."""
    pools = in_order(pools)
    columns = key_columns(pools)
    rows: dict[tuple[Cell, ...], dict[int, Pool]] = {}
    for p in sorted(pools, key=lambda p: not p.starts):  # those without a measurement find a row
        key = tuple(column.cell(p) for column in columns)
        if not p.starts:
            key = next((k for k, row in rows.items() if _belongs(p, row)), key)
        rows.setdefault(key, {})[p.case.batch_size] = p
    order = {id(p): i for i, p in enumerate(pools)}
    by_appearance = sorted(rows, key=lambda key: min(order[id(p)] for p in rows[key].values()))

    footnotes = Footnotes()
    batches = sorted({p.case.batch_size for p in pools})
    several = any(len(p.starts) > 1 for p in pools)
    return Table(
        title=title,
        headers=(
            *(column.header for column in columns),
            *(["starts"] if several else []),
            *(f"batch {b}" for b in batches),
        ),
        keys=len(columns) + several,
        rows=tuple(
            (
                *key,
                *([_starts(list(rows[key].values()))] if several else []),
                *(cell(rows[key][b], footnotes) if b in rows[key] else EMPTY for b in batches),
            )
            for key in by_appearance
        ),
        notes=tuple(notes),
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


def _starts(pools: Sequence[Pool]) -> Cell:
    counts = sorted({len(p.starts) for p in pools if p.starts})
    return words(f"{counts[0]}–{counts[-1]}" if len(counts) > 1 else str(*counts))
