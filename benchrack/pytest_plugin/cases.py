"""From a sweep to pytest's tests: one a start of a case."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from benchrack.cases import sweep
from benchrack.errors import BenchrackError
from benchrack.pytest_plugin import options
from benchrack.registry.registry import Registry, load_registry
from benchrack.vocabulary.cases import Case

REGISTRY = pytest.StashKey[tuple[list[object], Registry | None]]()
SWEEP = pytest.StashKey[sweep.Sweep]()
CASES = pytest.StashKey[dict[str, dict[str, "Planned"]]]()


@dataclass(frozen=True, slots=True)
class Planned:
    """What one test measures: a start of a case, counted from one."""

    case: Case
    start: int


def sweep_of(config: pytest.Config) -> sweep.Sweep:
    if SWEEP not in config.stash:
        asked = options.text(config, "sweep") or "quick"
        scenarios = registry_of(config).scenarios
        loaded = sweep.load(asked, scenarios, config.invocation_params.dir)
        given = options.overrides(config, scenarios.values())
        spanned = sweep.override(loaded, given, scenarios)
        options.require_fresh_processes(config, spanned.settings)
        config.stash[SWEEP] = spanned
    return config.stash[SWEEP]


def registry_of(config: pytest.Config) -> Registry:
    """What plugins provide, with those of each conftest.py that pytest has loaded by now."""
    conftests = conftests_of(config)
    known, registry = config.stash.get(REGISTRY, ([], None))
    if registry is None or known != conftests:
        registry = load_registry(disabled=options.disabled_plugins(config), conftests=conftests)
        config.stash[REGISTRY] = conftests, registry
    return registry


def conftests_of(config: pytest.Config) -> list[object]:
    """The user's conftest modules, which may hold hooks of Benchrack's."""
    files = {str(getattr(p, "__file__", "")): p for p in config.pluginmanager.get_plugins()}
    return [files[file] for file in sorted(files) if file.endswith("conftest.py")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A suite's test becomes one a case: it asks for `case` and `measured`, and has the marker of
    its scenario."""
    if not {"case", "measured"} <= set(metafunc.fixturenames):
        return
    scenario = options.scenario_of(metafunc.definition, registry_of(metafunc.config).scenarios)
    cases = _cases(metafunc.config, scenario) if scenario else {}
    if cases:
        metafunc.parametrize("case", list(cases), indirect=True)
    else:
        reason = f"the sweep has no table [{scenario}]"
        if scenario is None:
            reason = "the test has no marker of a scenario"
        metafunc.parametrize(
            "case", [pytest.param("none", marks=pytest.mark.skip(reason=reason))], indirect=True
        )


def _cases(config: pytest.Config, scenario: str) -> dict[str, Planned]:
    known = config.stash[CASES]
    if scenario not in known:
        try:
            spanned, registry = sweep_of(config), registry_of(config)
            asked = registry.scenario(scenario)
            cases = sweep.cases(spanned, asked, registry)
        except BenchrackError as error:  # the one kind that is shown without a traceback
            raise pytest.Collector.CollectError(str(error)) from error
        starts = spanned.settings.run.starts if asked.starts else 1
        known[scenario] = {
            f"{case.id}-s{start}" if starts > 1 else case.id: Planned(case, start)
            for case in cases
            for start in range(1, starts + 1)
        }
    return known[scenario]


def planned_by(item: pytest.Item) -> Planned | None:
    """What a collected test measures, or None for any other test."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if not isinstance(item, pytest.Function) or "measured" not in item.fixturenames:
        return None
    scenario = options.scenario_of(item, registry_of(item.config).scenarios)
    known = item.config.stash[CASES].get(scenario or "", {})
    return known.get(parameters.get("case", ""))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Cases of as many devices follow each other, since each number of devices has processes of its
    own, which on cards have to end before others measure. Several starts of each case, which are
    fresh processes anyway, are measured in a shuffled order, so that what drifts with time (heat,
    neighbours) is not taken for a difference between cases."""
    counts = {
        place: planned.case.device_count
        for place, item in enumerate(items)
        if (planned := planned_by(item)) is not None
    }
    if not counts:
        return
    settings = sweep_of(config).settings
    if settings.run.starts == 1:
        as_they_come = list(dict.fromkeys(counts.values()))
        order = sorted(counts, key=lambda place: as_they_come.index(counts[place]))
    else:
        order = random.Random(settings.measure.seed).sample(list(counts), len(counts))
    sources = dict(zip(counts, order, strict=True))
    items[:] = [items[sources.get(place, place)] for place in range(len(items))]
