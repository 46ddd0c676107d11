"""A worker process: reads cases from its standard input and writes what they gave to a pipe.

`python -m benchrack.execution.worker FD`; both ways are JSON, a line a message. The first line sets
it up. It ends when its input does, at once and wherever it is: so no worker outlives its pytest.
"""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchrack.bench.bench import Bench
from benchrack.cache import Cache
from benchrack.energy.metering import Idle, Metering, open_meters
from benchrack.execution.running import run_case, settle
from benchrack.flattening import unflatten
from benchrack.machine.gauges import limit_host_memory
from benchrack.machine.memory import GIB
from benchrack.machine.placement import Place, bind
from benchrack.records.record import to_record
from benchrack.registry.loading import load_file
from benchrack.registry.registry import load_registry
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.settings import Settings


def main() -> None:
    replies = int(sys.argv[1])
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()

    def reply(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(replies, data) :]

    setup = json.loads(lines.get())
    device = unflatten(Device, setup["device"])
    place = unflatten(Place, setup["place"]) if "place" in setup else None
    if place is not None:
        bind(place.cpus)  # before anything large is loaded, or counts the cores
    bench = bench_of(setup, device, [device])
    bench = dataclasses.replace(bench, progress=lambda phase: reply({"progress": phase}))
    while True:
        case = unflatten(Case, json.loads(lines.get()))
        if bench.device.kind == "cpu":
            limit_host_memory(int(bench.settings.run.memory_gib * GIB))
        reply(_measure(bench, case, place.description if place else ""))
        settle()


def _read(lines: queue.Queue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def bench_of(setup: dict[str, Any], device: Device, metered: Sequence[Device]) -> Bench:
    """The bench that `executors.Setup` describes, on a device, with the meters of some devices."""
    sys.path[:] = [*sys.path, *(p for p in setup["path"] if p not in sys.path)]
    conftests = [load_file(path) for path in setup["conftests"]]
    registry = load_registry(disabled=setup["disabled"], conftests=conftests)
    return Bench.on(
        device,
        registry,
        unflatten(Settings, setup["settings"]),
        Cache(Path(setup["cache"])),
        metering=Metering(
            opened=open_meters(registry.meters.values() if metered else (), metered),
            idle={domain: unflatten(Idle, flat) for domain, flat in setup["idle"].items()},
        ),
    )


def _measure(bench: Bench, case: Case, placement: str) -> dict[str, Any]:
    try:
        measurement = dataclasses.replace(run_case(bench, case), placement=placement)
    except Exception as error:
        return {
            "error": type(error).__name__,
            "message": str(error),
            "traceback": "".join(traceback.format_exception(error)),
        }
    return {
        "record": to_record(measurement),
        "seconds_per_batch": measurement.seconds_per_batch,
    }


if __name__ == "__main__":
    main()
