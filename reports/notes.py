"""What stands above a table: how its figures were measured, where, how often, in which runs."""

from __future__ import annotations

from collections.abc import Sequence

from benchrack.reports.layout import device
from benchrack.reports.pooling import Pool, sign_of

COPIES = {
    "include": "Copies to the device and back are inside the time.",
    "exclude": "Copies to the device and back are not inside the time.",
}


def single_start_notes(pools: Sequence[Pool]) -> list[str]:
    """What the interval of a row with one start leaves out: processes differ more than rounds."""
    single = [len(p.starts) == 1 for p in pools if p.starts]
    if not any(single):
        return []
    where = "One start each" if all(single) else "Where there is one start"
    return [f"{where}: ± is of one process; fresh ones may differ by more (--set starts=6)."]


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
        notes.append(COPIES[transfers.pop()])
    if timed and any(sign_of(p.starts) == "~" for p in pools):
        notes.append(
            "~ in place of ±: the rounds were too few, or too correlated, for a 95 % interval; it "
            "is the spread of a few blocks of them, an indication."
        )
    if any(len(p.starts) > 1 for p in pools):
        notes.append(
            "Several starts: their median; ± is its 95 % interval from six starts on, and below "
            "that the range of the starts."
        )
    if joined := dict.fromkeys(r.run.name for p in pools if _joined(p) for r in p.starts):
        notes.append(f"Starts of runs that resume one another are pooled: {', '.join(joined)}.")
    if timed and any(p.doubtful(energy=energy) for p in pools):
        notes.append("! marks what is not valid and must not be quoted; the numbers say why.")
    if renewed := [p for p in pools if p.older]:
        runs = ", ".join(dict.fromkeys(p.run.name for p in renewed))
        notes.append(
            f"{len(renewed)} of {len(pools)} cases were measured in more than one run: shown is "
            f"the newest, {runs}."
        )
    return notes


def _joined(p: Pool) -> bool:
    return len({start.run for start in p.starts}) > 1
