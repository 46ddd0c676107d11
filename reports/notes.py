"""What stands above a table: how its figures were measured, where, how often, in which runs; and
above the first table of a report, what holds for all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from benchrack.reports.layout import Table, device
from benchrack.reports.pooling import Pool, sign_of

TRANSFERS = {
    "include": "H2D and D2H transfers are inside the time.",
    "exclude": "H2D and D2H transfers are not inside the time.",
}

# How to read signs, in the order in which a report says it.
ONE_START = "± is of one process; fresh ones may differ by more (--set starts=6)."
ALL_ONE_START = f"One start each: {ONE_START}"
SOME_ONE_START = f"Where there is one start: {ONE_START}"
SEVERAL_STARTS = (
    "Several starts: their median; ± is its 95 % interval from six starts on, and below that the "
    "range of the starts."
)
TILDE = (
    "~ in place of ±: the rounds were too few, or too correlated, for a 95 % interval; it is the "
    "spread of a few blocks of them, an indication."
)
INVALID = "! marks what is not valid and must not be quoted; the numbers say why."
PUBLISHED = (
    "Published figures are others': measured elsewhere, with other software. Footnotes say whose, "
    "and how far to trust them: A, read in the document; B, in a copy; C, in a secondary source; "
    "D, computed or inferred from what was printed."
)
SIGNS = (ALL_ONE_START, SOME_ONE_START, SEVERAL_STARTS, TILDE, INVALID, PUBLISHED)

# Of the cases of one table, even where all tables have as many.
RENEWED = "cases were measured in more than one run: shown is the newest"


def single_start_notes(pools: Sequence[Pool]) -> list[str]:
    """What the interval of a row with one start leaves out: processes differ more than rounds."""
    single = [len(p.starts) == 1 for p in pools if p.starts]
    if not any(single):
        return []
    return [ALL_ONE_START if all(single) else SOME_ONE_START]


def common_notes(pools: Sequence[Pool], *, energy: bool = False, timed: bool = True) -> list[str]:
    """What holds for a whole table, be there energy in it or times: where it was measured, how
    often, and from which runs."""
    notes = []
    machines = dict.fromkeys(p.machine for p in pools)
    if len(machines) == 1:
        devices = dict.fromkeys(device(p) for p in pools if p.engine)
        where = f", {next(iter(devices))}" if len(devices) == 1 else ""
        notes.append(f"Measured on {next(iter(machines))}{where}.")
    if timed and len(transfers := {p.transfer for p in pools} - {""}) == 1:
        notes.append(TRANSFERS[transfers.pop()])
    if timed and any(sign_of(p.starts) == "~" for p in pools):
        notes.append(TILDE)
    if any(len(p.starts) > 1 for p in pools):
        notes.append(SEVERAL_STARTS)
    if joined := dict.fromkeys(r.run.name for p in pools if _joined(p) for r in p.starts):
        notes.append(f"Starts of runs that resume one another are pooled: {', '.join(joined)}.")
    if timed and any(p.doubtful(energy=energy) for p in pools):
        notes.append(INVALID)
    if renewed := [p for p in pools if p.older]:
        runs = ", ".join(dict.fromkeys(p.run.name for p in renewed))
        notes.append(f"{len(renewed)} of {len(pools)} {RENEWED}, {runs}.")
    return notes


def said_once(tables: Sequence[Table]) -> tuple[list[str], list[Table]]:
    """What stands above the first of several tables, and the tables without it: the notes that all
    of them have, and how to read the signs that any of them has."""
    if len(tables) < 2:
        return [], list(tables)
    found = {note for table in tables for note in table.notes}
    if ALL_ONE_START in found and found & {SOME_ONE_START, SEVERAL_STARTS}:
        found = found - {ALL_ONE_START} | {SOME_ONE_START}
    of_all = [
        note
        for note in tables[0].notes
        if note not in SIGNS and RENEWED not in note and all(note in t.notes for t in tables)
    ]
    common = {*of_all, *SIGNS}
    return [*of_all, *(sign for sign in SIGNS if sign in found)], [
        dataclasses.replace(t, notes=tuple(note for note in t.notes if note not in common))
        for t in tables
    ]


def _joined(p: Pool) -> bool:
    return len({start.run for start in p.starts}) > 1
