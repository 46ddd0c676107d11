"""Cards beside each other: throughput, and images/s per watt above idle, relative to one of them.

As in figures 1 and 2 of "Deep Learning Inference on P40 vs P4 with Skylake" (Dell EMC, July 2017),
where several P40 and several P4 are relative to one P40. Unlike the ratios within one run
(reports/scaling.py) these are over runs: cards are seldom measured in the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from benchrack.errors import ResultsError
from benchrack.reports.layout import (
    BATCH,
    DEVICES,
    Cell,
    Column,
    Table,
    device,
    in_order,
    key_columns,
    listed,
    words,
)
from benchrack.reports.notes import common_notes
from benchrack.reports.pooling import Pool, pool
from benchrack.reports.power import PER_WATT_ABOVE_IDLE, RATE, column, median_of
from benchrack.reports.ratios import doubtful, marked, per_watt_ratio_cell, rate_ratio_cell
from benchrack.reports.records import Results


def cards_table(results: Results, relative_to: str | None = None) -> Table | None:
    """A row for each card and device count of the cases that were measured on several cards.

    `relative_to` names the card whose single device all are relative to: its name in the results,
    or words of it in any case (`p40`). By default it is the one that was measured as a single
    device in the most of these cases; of equals, the first in the results. None where no case was
    measured on several cards and on a single device of that one.

    Raises ResultsError where `relative_to` is none of the cards, or may be several of them.
    """
    pools = [p for p in pool(results, "throughput") if p.starts and device(p) not in ("", "cpu")]
    cases = _on_several_cards(pools)
    base = _most_measured(cases) if relative_to is None else _named(relative_to, pools)
    cards = [base, *dict.fromkeys(map(device, pools))]
    shown: list[Pool] = []
    bases: dict[int, Pool] = {}
    for case in cases:
        ones = [p for p in case if device(p) == base and p.case.device_count == 1]
        if ones:
            bases |= {id(p): _base(p, ones) for p in case}
            shown += sorted(case, key=lambda p: cards.index(device(p)))
    if not shown:
        return None

    def ratio(p: Pool) -> Cell:
        return marked(rate_ratio_cell(p, bases[id(p)]), p, bases[id(p)])

    def per_watt(p: Pool) -> Cell:
        return marked(per_watt_ratio_cell(p, bases[id(p)]), p, bases[id(p)])

    keys = [key for key in key_columns(shown) if key.header not in ("device", "devices")]
    return listed(
        f"Cards, relative to one {base}",
        shown,
        [
            *(*keys, BATCH),
            Column(header="card", cell=lambda p: words(device(p))),
            DEVICES,
        ],
        [
            *(RATE, Column(header="relative", cell=ratio)),
            column("images/s/W above idle", PER_WATT_ABOVE_IDLE, energy=True),
            Column(header="relative per W", cell=per_watt, energy=True),
        ],
        notes=[*_notes(base, shown), *common_notes(shown, energy=True)],
        remarks=lambda p: _remarks(p, bases[id(p)]),
    )


def _on_several_cards(pools: Iterable[Pool]) -> list[list[Pool]]:
    """The cases that were measured on two cards or more, whatever the device count."""
    cases: dict[object, list[Pool]] = {}
    for p in in_order(pools):
        cases.setdefault((dataclasses.replace(p.case, device_count=1), p.transfer), []).append(p)
    return [case for case in cases.values() if len({device(p) for p in case}) > 1]


def _most_measured(cases: Sequence[Sequence[Pool]]) -> str:
    """The card of which a single device was measured in the most cases; of equals the first that
    was measured."""
    singles = [[p for p in case if p.case.device_count == 1] for case in cases]
    names = [name for ones in singles for name in {device(p) for p in ones}]
    in_time = sorted((p for ones in singles for p in ones), key=lambda p: p.starts[0].run.started)
    return max((device(p) for p in in_time), key=names.count, default="")


def _named(wanted: str, pools: Iterable[Pool]) -> str:
    """The card of the results whose name is `wanted`, or has its words."""
    cards = list(dict.fromkeys(map(device, pools)))
    exact = [card for card in cards if _words(card) == _words(wanted)]
    found = exact or [card for card in cards if set(_words(wanted)) <= set(_words(card))]
    if len(found) != 1 or not _words(wanted):
        if not cards:
            raise ResultsError("--relative-to: these results are of no card")
        among = ", ".join(found or cards)
        what = "may be several cards" if found else "is no card of these results"
        raise ResultsError(f"--relative-to: {wanted!r} {what}: name one of {among}")
    return found[0]


def _words(name: str) -> list[str]:
    return name.casefold().replace("-", " ").split()


def _base(p: Pool, ones: Sequence[Pool]) -> Pool:
    """What a pool is relative to: on the same engine where there is one; of several machines, or
    engines, that of the newest run."""
    return max(ones, key=lambda one: (_engine(one) == _engine(p), one.run.started))


def _engine(p: Pool) -> str:
    return p.engine.name if p.engine else ""


def _notes(base: str, shown: Sequence[Pool]) -> list[str]:
    per_watt = any(median_of(p.starts, PER_WATT_ABOVE_IDLE) is not None for p in shown)
    figures = "images/s, and images/s per watt above idle," if per_watt else "images/s"
    notes = [f"Relative: {figures} ÷ those of one {base} at the same batch size a device."]
    if len({start.run.name for p in shown for start in p.starts}) > 1:
        notes.append(
            "± has the uncertainty of both, and not what differs between runs: driver, clocks, "
            "temperature, neighbours."
        )
    ones = [p for p in shown if device(p) == base and p.case.device_count == 1]
    if len({p.machine for p in ones}) > 1:
        notes.append(f"Several machines measured one {base}: that of a case's newest run is taken.")
    return notes


def _remarks(p: Pool, base: Pool) -> list[str]:
    remarks = []
    if doubtful(p, base):
        remarks.append(f"relative to one {device(base)}, whose figure is not valid")
    elif doubtful(p, base, energy=True):
        remarks.append(f"per watt relative to one {device(base)}, whose energy is not valid")
    if (software := _software(p)) != (other := _software(base)):
        remarks.append(f"measured with {software}, and one {device(base)} with {other}")
    own, one = _meters(p), _meters(base)
    if own and one and own != one:
        remarks.append(f"power of {own}, and of {one} for one {device(base)}")
    return remarks


def _software(p: Pool) -> str:
    return f"{p.engine.name} {p.engine.version}" if p.engine else ""


def _meters(p: Pool) -> str:
    powers = [start.measurement.power for start in p.starts]
    return ", ".join(dict.fromkeys(name for power in powers if power for name in power.meters))
