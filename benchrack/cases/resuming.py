"""What an earlier run has measured already, so that a run that resumes it does not do so again.

A start of a case is taken over where its record is valid, also by the limits of now, and all that
its measuring depended on is the same: machine, device, settings, Benchrack and plugins of the run,
the versions of the modules that its backend and model use, its data, and its file of weights; with
several devices also which ones, and the other machines. What differs is told in words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchrack.errors import UnsupportedError
from benchrack.records.journal import Header
from benchrack.registry.registry import Registry
from benchrack.registry.sources import libraries_of, modules_of, versions_of
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.datasets import Split
from benchrack.vocabulary.results import Measurement
from benchrack.vocabulary.settings import keys

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """This run, for a comparison with an earlier one: its header, its plugins, whether a record
    would be `valid` now, and the data of a case, which raises UnsupportedError where a package is
    missing."""

    header: Header
    registry: Registry
    valid: Callable[[Measurement], bool]
    split: Callable[[Case], Split]


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
    now: Present,
    wanted: Collection[Start],
) -> TakenOver:
    """The starts, of those wanted, that an earlier run measured and that still hold."""
    if found := differences(earlier, now.header):
        return TakenOver(same=False, differences=tuple(found))
    starts, apart = set(), {}
    for m in measurements:
        if (m.case, m.start) not in wanted or not (m.valid and now.valid(m)):
            continue
        if changed := list(_changed(m, earlier, now)):
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
    without_effect = {key for key, known in keys().items() if not known.has_effect}
    in_process = settings.get("executor") == "in-process"
    return {
        **{name: facts.get(key) for key, name in FACTS.items()},
        "Benchrack's uncommitted changes": facts.get("call_git_changes") or "none",
        **libraries_of(facts),
        **header.plugins,
        "device": header.device,
        **{key: value for key, value in settings.items() if key not in without_effect},
        "fresh processes": settings.get("starts", 1) != 1 and not in_process,
    }


def _changed(m: Measurement, earlier: Header, now: Present) -> Iterator[str]:
    """What this one measurement depended on, and that is no longer the same."""
    modules = modules_of(now.registry, [m.case])

    def depended(header: Header) -> dict[str, Any]:
        versions = versions_of(header.machine, modules)
        return {**versions, **_places(header, m.case), **_weights(header, m.case)}

    yield from _unequal(depended(earlier), depended(now.header))
    try:
        split = now.split(m.case)
    except UnsupportedError:  # its package is missing now
        yield f"data of {m.case.model}: not here now"
        return
    if m.preparation.data_digest != split.digest:
        yield f"the images of {split.name}"


def _places(header: Header, case: Case) -> dict[str, Any]:
    """The devices here, and the machines, that a world of several devices has."""
    if case.device_count == 1:
        return {}
    here = case.device_count // max(1, len(header.nodes))
    return {"machines": header.nodes, "devices": header.devices[:here]}


def _weights(header: Header, case: Case) -> dict[str, Any]:
    return {f"files of --weights={case.weights}": header.weights.get(case.weights)}


def _unequal(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in {**then, **now}:
        if then.get(name) != now.get(name):
            yield f"{name} ({_shown(then.get(name))} then, {_shown(now.get(name))} now)"


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "none"
    return "unknown" if value is None else str(value)
