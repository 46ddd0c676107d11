"""What a run needs before its first case: devices, data, other nodes, a journal, an executor."""

from __future__ import annotations

import dataclasses

import pytest

from benchrack import pytest_nodes, pytest_options
from benchrack.bench import Bench
from benchrack.devices import resolve
from benchrack.errors import UnsupportedError
from benchrack.eta import Eta
from benchrack.executors import Executor
from benchrack.hardware.detection import detect
from benchrack.machines import Accelerator, Server
from benchrack.placement import capacity
from benchrack.progress import ProgressLine, terminal_stream
from benchrack.provenance import Facts, flat, gather
from benchrack.pytest_cases import Planned, registry_of, sweep_of
from benchrack.pytest_executors import executor_of
from benchrack.pytest_resume import Resumed, resume
from benchrack.run import Run, new_header
from benchrack.types import Case

RUN = pytest.StashKey[Run]()
EXECUTOR = pytest.StashKey[Executor]()
TOPICS = pytest.StashKey[dict[str, Facts]]()
PROGRESS = pytest.StashKey[ProgressLine]()
RESUMED = pytest.StashKey[Resumed]()
ETA = pytest.StashKey[Eta]()
SERVER = pytest.StashKey[tuple[Server | None, Accelerator | None]]()


def open_run(config: pytest.Config, planned: dict[str, Planned]) -> None:
    """Everything that the cases need, and the run's journal."""
    registry, spanned = registry_of(config), sweep_of(config)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    writer = None if reporter is None else config.get_terminal_writer()
    shown = reporter is not None and reporter.isatty
    config.stash[PROGRESS] = ProgressLine(writer, terminal_stream() if shown else None)
    devices = resolve(pytest_options.text(config, "device") or "auto")
    bench = Bench(registry=registry, settings=spanned.settings, device=devices[0])
    cases = {plan.case for plan in planned.values()}
    _open_data(bench, cases)
    capacities = pytest_nodes.agree(config, planned, bench.device.kind, capacity(devices))
    topics = gather(registry.provenance.values())
    config.stash[TOPICS] = topics
    command = ("pytest", *map(str, config.invocation_params.args))
    header = new_header(spanned.name, command, flat(topics), spanned.settings, bench.device)
    resumed = config.stash[RESUMED] = resume(config, header, bench, planned)
    run = Run.begin(
        pytest_options.results_folder(config), dataclasses.replace(header, resumes=resumed.runs)
    )
    run.plan({nodeid: plan.case for nodeid, plan in planned.items()})
    for nodeid, reason in resumed.reasons.items():
        run.note(planned[nodeid].case, "resumed", reason, nodeid)
    config.stash[RUN] = run
    config.stash[ETA] = Eta(spanned.settings, lambda case: _pictures(bench, case))
    leads = not pytest_nodes.follows(config)
    config.stash[SERVER] = (_server(bench), bench.card) if leads else (None, None)
    config.stash[PROGRESS].show("[measuring idle power]")
    config.stash[EXECUTOR] = executor_of(
        config, bench, devices, capacities, {case.device_count for case in cases}
    )
    config.stash[PROGRESS].clear()


def _open_data(bench: Bench, cases: set[Case]) -> None:
    for case in cases:
        try:
            bench.split(case)
        except UnsupportedError:
            continue  # a missing package: that case's skip says so


def _server(bench: Bench) -> Server | None:
    """The descriptor of this machine, where cards compute and one describes it."""
    if bench.device.kind == "cpu":
        return None
    known = bench.registry.servers
    return known.get(detect(known.values()).server or "")


def _pictures(bench: Bench, case: Case) -> int:
    try:
        return len(bench.split(case).measured)
    except UnsupportedError:
        return 0
