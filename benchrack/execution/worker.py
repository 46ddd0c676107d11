"""A worker process: reads a setup, then cases, and answers each with what it gave.

`python -m benchrack.execution.worker FD`; messages.py has what is said on that descriptor. It ends
when the other end does, at once and wherever it is: so no worker outlives its pytest.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType

from benchrack.cache import Cache
from benchrack.energy.metering import open_meters
from benchrack.execution.lifeline import Lifeline, own
from benchrack.execution.messages import Answer, Failed, Measured, Phase, Setup
from benchrack.execution.running import run_case, settle
from benchrack.machine.gauges import limit_host_memory
from benchrack.machine.memory import GIB
from benchrack.machine.placement import bind
from benchrack.registry.registry import load_registry
from benchrack.scenarios.bench import Bench
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.devices import Device


def main() -> None:
    line = Lifeline(own(Connection(int(sys.argv[1]))))
    setup: Setup = line.next()
    for place in setup.places:
        bind(place.cpus)  # before anything large is loaded, or counts the cores
    bench = bench_of(setup, setup.device, [setup.device])
    bench.progress = lambda phase: line.send(Phase(phase))
    placement = ", ".join(place.description for place in setup.places)
    while True:
        case: Case = line.next()
        if bench.device.kind == "cpu":
            limit_host_memory(int(bench.settings.memory_gib * GIB))
        line.send(_measure(bench, case, placement))
        settle()


def bench_of(setup: Setup, device: Device, metered: Sequence[Device]) -> Bench:
    """The bench that a setup describes, on a device, with the meters of some devices."""
    sys.path[:] = [*sys.path, *(p for p in setup.path if p not in sys.path)]
    conftests = [_imported(number, path) for number, path in enumerate(setup.conftests)]
    registry = load_registry(disabled=setup.disabled, conftests=conftests)
    return Bench(
        registry=registry,
        settings=setup.settings,
        device=device,
        cache=Cache(Path(setup.cache)),
        meters=open_meters(registry.meters.values() if metered else (), metered),
        idle=setup.idle,
    )


def _imported(number: int, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchrack_conftest_{number}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _measure(bench: Bench, case: Case, placement: str) -> Answer:
    try:
        return Measured.of(dataclasses.replace(run_case(bench, case), placement=placement))
    except Exception as error:
        return Failed.of(error)


if __name__ == "__main__":
    main()
