"""The pytest plugin: options, markers, parametrisation, the measuring fixture, what is printed.

Loaded by `benchrack.pytest_entry` for Benchrack's own runs, or with `-p benchrack.pytest_plugin`.
"""

from __future__ import annotations

import contextlib
import gc
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from benchrack import pytest_options, sweep
from benchrack.bench import Bench
from benchrack.devices import resolve
from benchrack.errors import (
    BenchrackError,
    OutOfMemoryError,
    UnsupportedError,
)
from benchrack.progress import ProgressLine, terminal_stream
from benchrack.pytest_report import headline, print_results, write_results
from benchrack.registry import Registry, load_registry
from benchrack.results import Measurement, to_record
from benchrack.run import Run
from benchrack.running import run_case
from benchrack.types import Case, Scenario

REGISTRY = pytest.StashKey[Registry]()
SWEEP = pytest.StashKey[sweep.Sweep]()
CASES = pytest.StashKey[dict[str, dict[str, Case]]]()
RUN = pytest.StashKey[Run]()
BENCH = pytest.StashKey[Bench]()
PROGRESS = pytest.StashKey[ProgressLine]()
SIGTERM = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    pytest_options.add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    for marker in pytest_options.MARKERS:
        config.addinivalue_line("markers", marker)
    # A fixture can't depend on `benchmark` only if there is one: so one of two modules defines it.
    present = config.pluginmanager.hasplugin("benchmark")
    module = "pytest_replay" if present else "pytest_without_benchmark"
    config.pluginmanager.import_plugin(f"benchrack.{module}")
    config.stash[CASES] = {}
    if asked := config.getoption("benchmark_json", None):
        with contextlib.suppress(OSError):  # pytest-benchmark says why it can't write
            Path(asked).parent.mkdir(parents=True, exist_ok=True)


# --- from the sweep to tests ------------------------------------------------------------------


def _sweep(config: pytest.Config) -> sweep.Sweep:
    if SWEEP not in config.stash:
        asked = pytest_options.text(config, "sweep") or "quick"
        loaded = sweep.load(asked, config.invocation_params.dir)
        config.stash[SWEEP] = sweep.override(loaded, pytest_options.overrides(config))
    return config.stash[SWEEP]


def _registry(config: pytest.Config) -> Registry:
    if REGISTRY not in config.stash:
        plugins = config.pluginmanager.get_plugins()
        conftests = [p for p in plugins if str(getattr(p, "__file__", "")).endswith("conftest.py")]
        config.stash[REGISTRY] = load_registry(
            disabled=pytest_options.disabled_plugins(config), conftests=conftests
        )
    return config.stash[REGISTRY]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A suite's test becomes one a case: it asks for `case` and `measured`, and has the marker of
    its scenario."""
    if not {"case", "measured"} <= set(metafunc.fixturenames):
        return
    scenario: Any = pytest_options.scenario_of(metafunc.definition)
    cases = _cases(metafunc.config, scenario)
    if cases:
        metafunc.parametrize("case", list(cases), indirect=True)
    else:
        reason = f"the sweep has no table [{scenario}]"
        metafunc.parametrize(
            "case", [pytest.param("none", marks=pytest.mark.skip(reason=reason))], indirect=True
        )


def _cases(config: pytest.Config, scenario: Scenario) -> dict[str, Case]:
    known = config.stash[CASES]
    if scenario not in known:
        try:
            spanned = sweep.cases(_sweep(config), scenario, _registry(config))
        except BenchrackError as error:
            raise pytest.UsageError(str(error)) from error
        known[scenario] = {case.id: case for case in spanned}
    return known[scenario]


def _case_of(item: pytest.Item) -> Case | None:
    """The case that a collected test measures, or None for any other test."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if not isinstance(item, pytest.Function) or "measured" not in item.fixturenames:
        return None
    known = item.config.stash[CASES].get(pytest_options.scenario_of(item) or "", {})
    return known.get(parameters.get("case", ""))


# --- before the first case --------------------------------------------------------------------


def pytest_collection_finish(session: pytest.Session) -> None:
    """What can be wrong with devices, data and the results folder is said before measuring."""
    config = session.config
    planned = {item.nodeid: case for item in session.items if (case := _case_of(item))}
    if not planned or config.option.collectonly:
        return
    if config.getoption("dist", "no") != "no":
        raise pytest.UsageError("cases are measured one at a time: run without xdist's -n")
    try:
        bench = _open_bench(config)
        _open_data(bench, set(planned.values()))
        config.stash[RUN] = Run.begin(
            pytest_options.results_folder(config),
            _sweep(config).name,
            ("pytest", *map(str, config.invocation_params.args)),
            machine={},
        )
    except BenchrackError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[RUN].plan(planned)
    _end_on_sigterm(config)


def _open_bench(config: pytest.Config) -> Bench:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    shown = reporter is not None and reporter.isatty
    progress = ProgressLine(config.get_terminal_writer(), terminal_stream() if shown else None)
    config.stash[PROGRESS] = progress
    config.stash[BENCH] = Bench(
        registry=_registry(config),
        settings=_sweep(config).settings,
        device=resolve(pytest_options.text(config, "device") or "auto")[0],
    )
    return config.stash[BENCH]


def _open_data(bench: Bench, cases: set[Case]) -> None:
    for case in cases:
        try:
            bench.split(case)
        except UnsupportedError:
            continue  # a missing package: that case's skip says so


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
    found = _case_of(request.node)
    assert found is not None, "a test with `case` and `measured` needs the marker of a scenario"
    return found


@pytest.fixture
def measured(
    request: pytest.FixtureRequest, replay: Callable[..., Any]
) -> Iterator[Callable[[Case], Measurement]]:
    """`measured(case)` measures it, keeps the record, and skips or fails with the reason."""
    config, nodeid = request.config, request.node.nodeid
    run, bench, progress = config.stash[RUN], config.stash[BENCH], config.stash[PROGRESS]

    def measure(case: Case) -> Measurement:
        __tracebackhide__ = True
        place = f"{run.total - len(run.planned) + 1} of {run.total}, {case.id}"
        bench.progress = lambda phase: progress.show(f"[{place}: {phase}]")
        measurement = _outcome_of(lambda: run_case(bench, case), run, case, nodeid)
        run.record(measurement, nodeid)
        request.node.user_properties.append(("benchrack", headline(measurement)))
        stats = replay(measurement.seconds_per_batch, {"benchrack": to_record(measurement)})
        if stats is not None:
            run.benchmarks.append(stats)
        if measurement.reasons and pytest_options.strict(config):
            pytest.fail(f"not valid: {'; '.join(measurement.reasons)}", pytrace=False)
        return measurement

    try:
        yield measure
    finally:
        progress.clear()
        gc.collect()  # models are large, and the next case wants their memory


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
        pytest.fail(str(error), pytrace=False)
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
    run.end(str(session.shouldfail or session.shouldstop or "the run was interrupted"))
    write_results(session.config, run)
    try:
        return (yield)  # pytest-benchmark writes the file of --benchmark-json, pytest its summary
    except OSError as error:
        run.json_failed(error)
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:  # the summary, which the error kept from being printed
            print_results(reporter, run)
        return None


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
    if REGISTRY in config.stash:
        for problem in config.stash[REGISTRY].problems:
            terminalreporter.write_line(f"benchrack: {problem}", yellow=True)
    if (run := config.stash.get(RUN, None)) is not None:
        print_results(terminalreporter, run)


def pytest_unconfigure(config: pytest.Config) -> None:
    if PROGRESS in config.stash:
        config.stash[PROGRESS].close()
    if SIGTERM in config.stash:
        signal.signal(signal.SIGTERM, config.stash[SIGTERM] or signal.SIG_DFL)


def pytest_report_header(config: pytest.Config) -> str:
    return f"benchrack: sweep {pytest_options.text(config, 'sweep')}"
