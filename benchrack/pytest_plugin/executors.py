"""Where the cases of a run are measured: in this process, in a worker, in a world; and the power of
their devices while nothing runs yet."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import pytest

from benchrack.bench.bench import Bench
from benchrack.distributed.world import World
from benchrack.energy.metering import Idle, Metering, measure_idle, open_meters
from benchrack.execution.executors import Executor, InProcess, Worker
from benchrack.execution.messages import Setup
from benchrack.machine.placement import alone
from benchrack.nodes.world_of_nodes import WorldOfNodes
from benchrack.pytest_plugin import nodes, options
from benchrack.pytest_plugin.cases import conftests_of
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.meters import Domain


def executor_of(
    config: pytest.Config,
    bench: Bench,
    devices: Sequence[Device],
    capacities: Sequence[int],
    counts: Collection[int],
) -> Executor:
    """Cases of one device run in a worker process, or in this one where a debugger is asked for;
    those of several (`counts` are those of the sweep) in a process each, on this machine or on all
    of them, which have as many devices as `capacities` say."""
    opened = open_meters(bench.registry.meters.values(), [bench.device])
    idle = measure_idle(opened.meters)
    setup = Setup(
        settings=bench.settings,
        device=bench.device,
        cache=str(bench.cache.root),
        idle=idle,
        disabled=options.disabled_plugins(config),
        conftests=tuple(
            path for plugin in conftests_of(config) if (path := getattr(plugin, "__file__", ""))
        ),
    )
    one: Executor
    scenarios = bench.registry.scenarios
    if options.in_process(config, bench.settings):
        metering = Metering(opened=opened, idle=idle)
        one = InProcess(dataclasses.replace(bench, metering=metering))
    else:
        opened.close()
        alone_there = dataclasses.replace(setup, places=(alone(bench.device),))
        one = Worker(alone_there, scenarios=scenarios)
    sizes = {count // len(capacities) for count in counts}
    world = World(setup, tuple(devices), one, _idle(bench, devices, sizes), scenarios)
    if nodes.LINK not in config.stash:
        return world
    return WorldOfNodes(world, config.stash[nodes.LINK], capacities)


def _idle(
    bench: Bench, devices: Sequence[Device], sizes: Collection[int]
) -> dict[int, Mapping[Domain, Idle]]:
    """The power of the first so many cards while nothing runs; the CPU is metered as a whole."""
    if bench.device.kind == "cpu":
        return {}
    found: dict[int, Mapping[Domain, Idle]] = {}
    for size in sorted(size for size in sizes if 1 < size <= len(devices)):
        opened = open_meters(bench.registry.meters.values(), devices[:size])
        found[size] = measure_idle(opened.meters)
        opened.close()
    return found
