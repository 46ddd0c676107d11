"""What an earlier run has measured already, so that a run that resumes it does not do so again.

A start of a case is taken over where its record is valid, also by the limits of now, and all that
its measuring depended on is the same: machine, device, settings, Benchrack and plugins of the run,
the versions of the modules that its backend and model use, its data, and its file of weights; with
several devices also which ones, and the other machines. What differs is told in words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchrack.errors import UnsupportedError
from benchrack.records.journal import Header
from benchrack.registry.sources import libraries_of, modules_of, versions_of
from benchrack.scenarios.bench import Bench
from benchrack.verdict.rules import judge
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.results import Measurement

Start = tuple[Case, int]

# Facts (see provenance.flat) that all measurements of a run depend on, as a message names them.
FACTS = {
    "machine": "machine",
    "cpu_usable_cores": "usable cores",
    "accelerators_driver": "driver",
    "accelerators_power_limit_w": "power limits",
    "accelerators_ecc": "ECC",
    "accelerators_mig": "MIG",
    "call_environment": "environment variables",
    "call_git_commit": "Benchrack's commit",
    "software_benchrack": "Benchrack",
    "software_python": "Python",
}
# Settings that say where cases run, how many, and what of them is valid, but change no measurement.
WITHOUT_EFFECT = re.compile(
    r"executor|(case_time|join|silence)_limit_s|memory_gib|starts|publish|limit_.*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """What a run takes over from an earlier one. `same` says that nothing differs that concerns
    all of its cases; `differences` are reasons to measure again, those of single cases too."""

    same: bool
    starts: frozenset[Start] = frozenset()
    differences: tuple[str, ...] = ()


def take_over(
    earlier: Header,
    measurements: Iterable[Measurement],
    now: Header,
    bench: Bench,
    wanted: Collection[Start],
) -> TakenOver:
    """The starts, of those wanted, that an earlier run measured and that still hold.

    The bench is that of now, and opens the data sets of the cases.
    """
    if found := differences(earlier, now):
        return TakenOver(same=False, differences=tuple(found))
    starts, apart = set(), {}
    for m in measurements:
        if (m.case, m.start) not in wanted or not _valid(m, bench):
            continue
        if changed := list(_changed(m, earlier, now, bench)):
            apart.update(dict.fromkeys(changed))
        else:
            starts.add((m.case, m.start))
    return TakenOver(same=True, starts=frozenset(starts), differences=tuple(apart))


def differences(earlier: Header, now: Header) -> list[str]:
    """What keeps all measurements of two runs from being of the same thing; nothing: none."""
    if not earlier.settings or not earlier.machine.get("machine"):
        return ["it does not say on which machine or with which settings it was measured"]
    if any(_unknown_changes(header.machine) for header in (earlier, now)):
        return ["Benchrack had uncommitted changes that could not be compared"]
    return list(_unequal(_conditions(earlier), _conditions(now)))


def _unknown_changes(facts: Mapping[str, Any]) -> bool:
    return bool(facts.get("call_git_dirty")) and not facts.get("call_git_changes")


def _conditions(header: Header) -> dict[str, Any]:
    """All that the measurements of a run depend on, by its name in a message."""
    facts, settings = header.machine, header.settings
    in_process = settings.get("executor") == "in-process"
    return {
        **{name: facts.get(key) for key, name in FACTS.items()},
        "Benchrack's uncommitted changes": facts.get("call_git_changes") or "none",
        **libraries_of(facts),
        **header.plugins,
        "device": header.device,
        **{key: value for key, value in settings.items() if not WITHOUT_EFFECT.fullmatch(key)},
        "fresh processes": settings.get("starts", 1) != 1 and not in_process,
    }


def _valid(m: Measurement, bench: Bench) -> bool:
    return m.valid and not judge(m, bench.settings, bench.card)


def _changed(m: Measurement, earlier: Header, now: Header, bench: Bench) -> Iterator[str]:
    """What this one measurement depended on, and that is no longer the same."""
    for of in (_versions, _places, _weights):
        yield from _unequal(of(earlier, m.case, bench), of(now, m.case, bench))
    try:
        split = bench.split(m.case)
    except UnsupportedError:  # its package is missing now
        yield f"data of {m.case.model}: not here now"
        return
    if m.preparation.data_digest != split.digest:
        yield f"the pictures of {split.name}"


def _versions(header: Header, case: Case, bench: Bench) -> dict[str, Any]:
    return versions_of(header.machine, modules_of(bench.registry, [case]))


def _places(header: Header, case: Case, bench: Bench) -> dict[str, Any]:
    """The devices here, and the machines, that a world of several devices has."""
    if case.device_count == 1:
        return {}
    here = case.device_count // max(1, len(header.nodes))
    return {"machines": header.nodes, "devices": header.devices[:here]}


def _weights(header: Header, case: Case, bench: Bench) -> dict[str, Any]:
    return {f"files of --weights={case.weights}": header.weights.get(case.weights)}


def _unequal(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in {**then, **now}:
        if then.get(name) != now.get(name):
            yield f"{name} ({_shown(then.get(name))} then, {_shown(now.get(name))} now)"


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "none"
    return "unknown" if value is None else str(value)
