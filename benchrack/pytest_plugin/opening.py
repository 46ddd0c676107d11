"""What a run needs before its first case: devices, data, other nodes, a journal, an executor."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from benchrack.bench.bench import Bench
from benchrack.cases.eta import Eta
from benchrack.cases.sweep import beyond_server
from benchrack.errors import UnsupportedError
from benchrack.execution.executors import Executor
from benchrack.execution.progress import ProgressLine, terminal_stream
from benchrack.hardware.detection import detect
from benchrack.machine.devices import resolve
from benchrack.machine.placement import capacity
from benchrack.pytest_plugin import nodes, options
from benchrack.pytest_plugin.cases import Planned, registry_of, sweep_of
from benchrack.pytest_plugin.executors import executor_of
from benchrack.pytest_plugin.resume import Resumed, resume
from benchrack.records.run import Run, new_header
from benchrack.registry.sources import code_of, plugins_of, weights_of
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.descriptors import Server
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.provenance import Facts, flat, gather

RUN = pytest.StashKey[Run]()
EXECUTOR = pytest.StashKey[Executor]()
TOPICS = pytest.StashKey[dict[str, Facts]]()
PROGRESS = pytest.StashKey[ProgressLine]()
RESUMED = pytest.StashKey[Resumed]()
ETA = pytest.StashKey[Eta]()
SPARED = pytest.StashKey[dict[str, tuple[str, str]]]()


def open_run(config: pytest.Config, planned: dict[str, Planned]) -> None:
    """Everything that the cases need, and the run's journal."""
    registry, spanned = registry_of(config), sweep_of(config)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    writer = None if reporter is None else config.get_terminal_writer()
    shown = reporter is not None and reporter.isatty
    config.stash[PROGRESS] = ProgressLine(writer, terminal_stream() if shown else None)
    devices = resolve(options.text(config, "device") or "auto")
    bench = Bench.on(devices[0], registry, spanned.settings)
    cases = {plan.case for plan in planned.values()}
    topics = config.stash[TOPICS] = gather(registry.provenance.values())
    facts = flat(topics)
    hardware = _hardware(facts, devices, nodes.count(config), cases)
    agreed = nodes.agree(
        config,
        planned,
        {**_same(bench, facts, cases), "hardware": hardware},
        {"capacity": capacity(devices), "machine": facts["machine"]},
    )
    header = dataclasses.replace(
        new_header(
            spanned.name,
            ("pytest", *map(str, config.invocation_params.args)),
            facts,
            spanned.settings,
            devices,
        ),
        nodes=tuple(str(node["machine"]) for node in agreed),
        plugins=plugins_of(registry),
        weights=weights_of(case.weights for case in cases),
    )
    resumed = config.stash[RESUMED] = resume(config, header, bench, planned)
    spared = config.stash[SPARED] = _spared(config, bench, planned, resumed)
    run = Run.begin(
        options.results_folder(config), dataclasses.replace(header, resumes=resumed.runs)
    )
    run.plan({nodeid: plan.case for nodeid, plan in planned.items()})
    for nodeid, (status, reason) in spared.items():
        run.note(planned[nodeid].case, status, reason, nodeid)
    config.stash[RUN] = run
    config.stash[ETA] = Eta(
        spanned.settings,
        registry.scenarios,
        lambda case: _images(bench, case),
        lambda model: registry.model(model).multiply_accumulates if model else None,
    )
    config.stash[PROGRESS].show("[measuring idle power]")
    config.stash[EXECUTOR] = executor_of(
        config,
        bench,
        devices,
        [int(node["capacity"]) for node in agreed],
        {case.device_count for case in cases},
    )
    config.stash[PROGRESS].clear()


def _opened_data(bench: Bench, cases: set[Case]) -> dict[str, str]:
    """The digest of each data set, all opened."""
    digests = {}
    for case in (case for case in cases if case.model):
        try:
            digests[bench.data.name(case)] = bench.data.split(case).digest
        except UnsupportedError:
            continue  # a missing package: that case's skip says so
    return dict(sorted(digests.items()))


def _same(bench: Bench, facts: Facts, cases: set[Case]) -> dict[str, Any]:
    """What must be the same on all nodes, by its name in a message. Opens the data sets."""
    return {
        "device": bench.device.kind,
        "software": code_of(facts, bench.registry, cases),
        "data": _opened_data(bench, cases),
    }


def _hardware(
    facts: Facts, devices: Sequence[Device], nodes: int, cases: Collection[Case]
) -> list[str]:
    """What a machine's part of the largest world consists of, each kind once."""
    if devices[0].kind == "cpu":
        return [str(facts["cpu"])]
    share = max(case.device_count for case in cases) // nodes
    return sorted({device.name for device in devices[: max(1, share)]})


def _spared(
    config: pytest.Config, bench: Bench, planned: Mapping[str, Planned], resumed: Resumed
) -> dict[str, tuple[str, str]]:
    """The tests that need no measuring, with status and reason, as node 0 knows."""
    found = {nodeid: ("resumed", reason) for nodeid, reason in resumed.reasons.items()}
    if not nodes.follows(config):
        server, card = _server(bench), bench.card
        for nodeid, plan in planned.items():
            share = nodes.share_of(config, plan.case)
            if nodeid not in found and (reason := beyond_server(share, server, card)):
                found[nodeid] = ("unsupported", reason)
    known = nodes.as_node_0(config, planned, found)
    return {nodeid: (status, reason) for nodeid, (status, reason) in known.items()}


def _server(bench: Bench) -> Server | None:
    """The descriptor of this machine, where cards compute and one describes it."""
    if bench.device.kind == "cpu":
        return None
    known = bench.registry.servers
    return known.get(detect(known.values()).server or "")


def _images(bench: Bench, case: Case) -> int:
    if not case.model:
        return 0
    try:
        return len(bench.data.split(case).measured)
    except UnsupportedError:
        return 0
