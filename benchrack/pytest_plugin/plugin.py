"""The pytest plugin: options, markers, parametrisation, the measuring fixture, what is printed.

Loaded by `entry` for Benchrack's own runs, or with `-p benchrack.pytest_plugin`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from benchrack.errors import (
    BenchrackError,
    OutOfMemoryError,
    UnsupportedError,
)
from benchrack.execution.progress import position
from benchrack.machine.devices import count_as_nvml
from benchrack.machine.memory import smaller_did_not_fit
from benchrack.pytest_plugin import cases, nodes, options, replay, without_benchmark
from benchrack.pytest_plugin.cases import CASES, planned_by, registry_of, sweep_of
from benchrack.pytest_plugin.opening import (
    ETA,
    EXECUTOR,
    PROGRESS,
    RESUMED,
    RUN,
    SPARED,
    TOPICS,
    open_run,
)
from benchrack.pytest_plugin.report import headline, print_results, write_results
from benchrack.records.record import to_record
from benchrack.records.run import Run
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.results import Measurement

SIGTERM = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser
) -> Generator[None, None, None]:
    """Scenarios have options for their axes, those of a conftest.py too: once it was loaded, and
    before pytest reads the command line for good."""
    yield
    try:
        options.add_axes(parser, registry_of(early_config).scenarios.values())
    except BenchrackError as error:
        raise pytest.UsageError(str(error)) from error


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    count_as_nvml()  # before anything looks for cards; workers and worlds inherit it
    scenarios = registry_of(config).scenarios.values()
    for marker in (options.INFERENCE, *(f"{s.name}: {s.question}" for s in scenarios)):
        config.addinivalue_line("markers", marker)
    # A fixture can't depend on `benchmark` only if there is one: so one of two modules defines it.
    present = config.pluginmanager.hasplugin("benchmark")
    replaying = replay if present else without_benchmark
    for module in (cases, nodes, replaying):
        config.pluginmanager.register(module, module.__name__)
    nodes.configure(config)
    config.stash[CASES] = {}
    if asked := config.getoption("benchmark_json", None):
        with contextlib.suppress(OSError):  # pytest-benchmark says why it can't write
            Path(asked).parent.mkdir(parents=True, exist_ok=True)


# --- before the first case --------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """A mistake in the sweep or its options is said once, and not by each module."""
    try:
        sweep_of(session.config)
    except BenchrackError as error:
        session.config.stash[nodes.REASON] = str(error)
        raise pytest.UsageError(str(error)) from error


def pytest_collection_finish(session: pytest.Session) -> None:
    """What can be wrong with devices, data and the results folder is said before measuring."""
    config = session.config
    planned = {item.nodeid: found for item in session.items if (found := planned_by(item))}
    if not planned or config.option.collectonly:
        return
    if config.getoption("dist", "no") != "no":
        raise pytest.UsageError("cases are measured one at a time: run without xdist's -n")
    try:
        open_run(config, planned)
    except BenchrackError as error:
        config.stash[nodes.REASON] = str(error)
        raise pytest.UsageError(str(error)) from error
    _end_on_sigterm(config)


def _end_on_sigterm(config: pytest.Config) -> None:
    """A batch system's time limit ends the run as Ctrl-C does: tables and JSON are written."""

    def end(number: int, frame: FrameType | None) -> None:
        raise pytest.exit.Exception("ended by SIGTERM", returncode=128 + number)

    try:
        config.stash[SIGTERM] = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread
        return


# --- one case ---------------------------------------------------------------------------------


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Case:
    """The case that this test measures."""
    found = planned_by(request.node)
    assert found is not None, "a test with `case` and `measured` needs the marker of a scenario"
    return found.case


@pytest.fixture
def measured(
    request: pytest.FixtureRequest, replay: Callable[..., Any]
) -> Iterator[Callable[[Case], Measurement]]:
    """`measured(case)` measures it, keeps the record, and skips or fails with the reason."""
    config, nodeid = request.config, request.node.nodeid
    run, executor, progress = config.stash[RUN], config.stash[EXECUTOR], config.stash[PROGRESS]
    eta, spared = config.stash[ETA], config.stash[SPARED]
    planned = planned_by(request.node)
    assert planned is not None
    settings = sweep_of(config).settings
    machine = str(run.header.machine.get("machine", ""))
    fresh, publishing = settings.run.starts > 1, settings.run.publish

    def measure(case: Case) -> Measurement:
        __tracebackhide__ = True
        if nodeid in spared:
            _, reason = spared[nodeid]
            pytest.skip(reason)
        number = run.total - len(run.planned) + 1
        waiting = [other for name, other in run.planned.items() if name != nodeid]
        left_s = eta.countdown(case, waiting)

        def show(phase: str) -> None:
            progress.show(f"[{position(number, run.total, left_s())}, {case.id}: {phase}]")

        def attempt() -> Measurement:
            if reason := smaller_did_not_fit(case, run.outcomes):
                raise OutOfMemoryError(reason)
            return executor.run(case, show, fresh=fresh)

        def timed() -> Measurement:
            return eta.timed(case, attempt)

        found = _outcome_of(timed, run, case, nodeid)
        measurement = dataclasses.replace(found, start=planned.start, machine=machine)
        run.record(measurement, nodeid)
        scenario = registry_of(config).scenario(case.scenario)
        request.node.user_properties.append(("benchrack", headline(measurement, scenario)))
        stats = replay(measurement.seconds_per_batch, {"benchrack": to_record(measurement)})
        if stats is not None:
            run.benchmarks.append(stats)
        if measurement.reasons and (options.strict(config) or publishing):
            pytest.fail(f"not valid: {'; '.join(measurement.reasons)}", pytrace=False)
        return measurement

    try:
        yield measure
    finally:
        progress.clear()


def _outcome_of(
    measure: Callable[[], Measurement], run: Run, case: Case, nodeid: str
) -> Measurement:
    """The measurement, or its absence noted with the reason: as a skip or a failure."""
    __tracebackhide__ = True
    try:
        return measure()
    except UnsupportedError as error:
        run.note(case, "unsupported", str(error), nodeid)
        pytest.skip(str(error))
    except OutOfMemoryError as error:
        run.note(case, "out-of-memory", str(error), nodeid)
        pytest.skip(f"out of memory: {error}")
    except BenchrackError as error:
        run.note(case, "failed", str(error), nodeid)
        text = f"{error}\n{getattr(error, 'details', '')}".rstrip()
        raise pytest.fail.Exception(text, pytrace=False) from None
    except (KeyboardInterrupt, SystemExit, pytest.exit.Exception) as error:  # Ctrl-C, SIGTERM
        run.note(case, "interrupted", str(error) or type(error).__name__, nodeid)
        raise
    except Exception as error:
        run.note(case, "failed", f"{type(error).__name__}: {error}", nodeid)
        raise


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """In a verbose run a passed case shows what it measured."""
    for name, value in getattr(report, "user_properties", ()):
        if name == "benchrack" and report.when == "call" and report.passed:
            return "passed", ".", str(value)
    return None


# --- after the last case ----------------------------------------------------------------------


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, Any, Any]:
    """The journal is closed, and the JSON written, before anything else can fail."""
    run = session.config.stash.get(RUN, None)
    if run is None:
        return (yield)
    to_the_end = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    reason = "skipped before it was measured" if to_the_end else "the run was interrupted"
    run.end(str(session.shouldfail or session.shouldstop or reason))
    write_results(session.config, run)
    # After others, such as that of a signal, pytest prints no summary.
    summed_up = session.exitstatus in [
        code for code in pytest.ExitCode if code.name != "INTERNAL_ERROR"
    ]
    try:
        yield  # pytest-benchmark writes the file of --benchmark-json, pytest its summary
    except OSError as error:
        run.json_failed(error)
        summed_up = False
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not summed_up:  # after an error, or an exit code of a signal
        pytest_terminal_summary(reporter, session.config)
    if run.lost and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(
    config: pytest.Config, machine_info: dict[str, Any]
) -> None:
    if TOPICS in config.stash:
        machine_info["benchrack"] = config.stash[TOPICS]


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    if (run := config.stash.get(RUN, None)) is not None:
        output_json["benchrack"] = run.block()


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_benchmark_group_stats(config: pytest.Config) -> Generator[None, Any, Any]:
    """Benchrack prints tables of its own: pytest-benchmark's shows what is left, and all of it
    where it compares."""
    groups = yield
    if config.getoption("benchmark_compare", None):
        return groups
    own = [
        (name, [b for b in found if "benchrack" not in b["extra_info"]]) for name, found in groups
    ]
    return [(name, found) for name, found in own if found]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for problem in registry_of(config).problems:
        terminalreporter.write_line(f"benchrack: {problem}", yellow=True)
    if (run := config.stash.get(RUN, None)) is None:
        return
    if nodes.follows(config):
        nodes.print_line(terminalreporter, config, run)
    else:
        scenarios = registry_of(config).scenarios
        print_results(terminalreporter, run, scenarios, config.stash[RESUMED].files)


def pytest_unconfigure(config: pytest.Config) -> None:
    if EXECUTOR in config.stash:
        config.stash[EXECUTOR].close()
    if PROGRESS in config.stash:
        config.stash[PROGRESS].close()
    if SIGTERM in config.stash:
        signal.signal(signal.SIGTERM, config.stash[SIGTERM] or signal.SIG_DFL)


def pytest_report_header(config: pytest.Config) -> str:
    return f"benchrack: sweep {options.text(config, 'sweep')}"
