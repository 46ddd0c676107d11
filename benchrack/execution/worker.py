"""A worker process: reads a setup, then cases, and answers each with what it gave.

`python -m benchrack.execution.worker FD`; messages.py has what is said on that descriptor. It ends
when the other end does, at once and wherever it is: so no worker outlives its pytest.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from benchrack.bench.bench import Bench
from benchrack.cache import Cache
from benchrack.energy.metering import Metering, open_meters
from benchrack.execution.lifeline import Lifeline, own
from benchrack.execution.messages import Answer, Failed, Measured, Phase, Setup
from benchrack.execution.running import run_case, settle
from benchrack.machine.gauges import limit_host_memory
from benchrack.machine.memory import GIB
from benchrack.machine.placement import bind
from benchrack.registry.loading import load_file
from benchrack.registry.registry import load_registry
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.devices import Device


def main() -> None:
    line = Lifeline(own(Connection(int(sys.argv[1]))))
    setup: Setup = line.next()
    for place in setup.places:
        bind(place.cpus)  # before anything large is loaded, or counts the cores
    bench = dataclasses.replace(
        bench_of(setup, setup.device, [setup.device]),
        progress=lambda phase: line.send(Phase(phase)),
    )
    placement = ", ".join(place.description for place in setup.places)
    while True:
        case: Case = line.next()
        if bench.device.kind == "cpu":
            limit_host_memory(int(bench.settings.run.memory_gib * GIB))
        line.send(_measure(bench, case, placement))
        settle()


def bench_of(setup: Setup, device: Device, metered: Sequence[Device]) -> Bench:
    """The bench that a setup describes, on a device, with the meters of some devices."""
    sys.path[:] = [*sys.path, *(p for p in setup.path if p not in sys.path)]
    conftests = [load_file(path) for path in setup.conftests]
    registry = load_registry(disabled=setup.disabled, conftests=conftests)
    opened = open_meters(registry.meters.values() if metered else (), metered)
    return Bench.on(
        device,
        registry,
        setup.settings,
        Cache(Path(setup.cache)),
        metering=Metering(opened=opened, idle=setup.idle),
    )


def _measure(bench: Bench, case: Case, placement: str) -> Answer:
    try:
        return Measured.of(dataclasses.replace(run_case(bench, case), placement=placement))
    except Exception as error:
        return Failed.of(error)


if __name__ == "__main__":
    main()
