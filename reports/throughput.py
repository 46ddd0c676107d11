"""The throughput table: images per second by model and backend, a column for each batch size."""

from __future__ import annotations

from benchrack.reports.layout import Cell, Footnotes, Table, missed
from benchrack.reports.matrix import by_batch
from benchrack.reports.notes import common_notes, single_start_notes
from benchrack.reports.numbers import figure, half_width
from benchrack.reports.pooling import Pool, modes_of_starts, over_starts, pool, rates_of, sign_of
from benchrack.reports.records import Results

NOTE = "Median of rounds, with ± the half width of its 95 % interval."


def throughput_table(results: Results) -> Table | None:
    """None where no throughput was asked for."""
    pools = pool(results, "throughput")
    if not pools:
        return None
    notes = [NOTE, *single_start_notes(pools), *common_notes(pools)]
    return by_batch("Throughput, images/s", pools, _cell, notes=notes)


def _cell(p: Pool, footnotes: Footnotes) -> Cell:
    rates = rates_of(p.starts)
    notes = footnotes.of(p, remarks=modes_of_starts([rate.value for rate in rates], "images/s"))
    if not p.starts:
        return missed(p, notes)
    if not rates:
        return Cell(notes=notes, invalid=p.doubtful())
    rate = over_starts(rates)
    return Cell(
        text=figure(rate.value),
        spread=half_width(rate, sign_of(p.starts)),
        value=rate.value,
        notes=notes,
        invalid=p.doubtful(),
    )
