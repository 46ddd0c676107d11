"""Benchrack as a pytest user meets it: selection, skips, interruptions, files and tables."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np  # noqa: F401 - once a process: pytest in pytest would load it again
import pytest
from fakes import suites
from fakes.scenarios import SCENARIOS

from benchrack.cases import sweep
from benchrack.records import journal
from benchrack.reports.records import load
from benchrack.reports.tables import render_all

pytest_plugins = ["pytester"]

PLUGINS = """
import dataclasses, os, signal, sys, threading

def broken(images, matrix):
    raise RuntimeError("kernel launch failed")

def full(images, matrix):
    raise OutOfMemoryError("3 GiB were asked for, 2 GiB are free")

# What a user sends to pytest comes from outside; a worker is a child of it.
PYTEST = os.getppid() if "BENCHRACK_IN_WORKER" in os.environ else os.getpid()

def ctrl_c(images, matrix):
    os.kill(PYTEST, signal.SIGINT)
    threading.Event().wait(60)

def terminated(images, matrix):
    os.kill(PYTEST, signal.SIGTERM)
    threading.Event().wait(60)

FALLEN = dataclasses.replace(lab.ENGINE, deviations=("it ran on the CPU",))

def segfault(images, matrix):
    os.kill(os.getpid(), signal.SIGSEGV)

def hanging(images, matrix):
    open("hanging", "w").close()
    threading.Event().wait(60)

def interrupted_when_measuring(images, matrix, calls=[]):
    calls.append(1)
    if len(calls) > 2 + int(os.environ.get("CALLS", "0")):
        ctrl_c(images, matrix)
    return images.reshape(len(images), -1) @ matrix

def telling(images, matrix):
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\\n")
    return images.reshape(len(images), -1) @ matrix

def fall_once(request):
    engine = lab.ENGINE if os.path.exists("fell") else FALLEN
    open("fell", "w").close()
    return lab.backend(engine=engine).prepare(request)

# A real clock makes some start noisy: where told so, workers judge by the engine alone.
if "JUDGED_BY_ENGINE" in os.environ and hasattr(sys.modules["__main__"], "bench_of"):
    from benchrack.execution import running
    running.judge = lambda m, *_: tuple(f"fell-back: {d}" for d in m.engine.deviations)

@hookimpl
def benchrack_backends():
    return [
        lab.backend(),
        lab.backend("telling", compute=telling),
        dataclasses.replace(lab.backend("falling-once"), prepare=fall_once),
        lab.backend("broken", compute=broken),
        lab.backend("full", compute=full),
        lab.backend("segfault", compute=segfault),
        lab.backend("hanging", compute=hanging),
        lab.backend("fallen", engine=FALLEN),
        lab.backend("ctrl-c", compute=ctrl_c),
        lab.backend("late-ctrl-c", compute=interrupted_when_measuring),
        lab.backend("terminated", compute=terminated),
        lab.backend("absent", unsupported=lambda device: "no such card in this machine"),
    ]
"""

THROUGHPUT, ACCURACY = {"batch_sizes": [1, 2]}, {"batch_sizes": [25]}


@pytest.fixture
def lab(suite_run):
    """A folder with fake plugins in a conftest, a suite, and a sweep; `lab(...)` runs pytest."""
    return suite_run(PLUGINS, throughput=THROUGHPUT, accuracy=ACCURACY)


def the_json(folder):
    (path,) = (folder / "results").glob("*.json")
    return json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(f"{word} in JSON"))


def the_journal(folder):
    (path,) = (folder / "results").glob("*.jsonl")
    return journal.read(path, SCENARIOS)


def statuses(document):
    return sorted(outcome["status"] for outcome in document["benchrack"]["outcomes"])


def test_a_case_is_a_test_with_a_readable_name(lab):
    result = lab("--collect-only", "-q")
    result.stdout.fnmatch_lines(
        [
            "test_suite.py::test_throughput[[]matrix-numpy-fp32-b1-x1[]]",
            "test_suite.py::test_throughput[[]matrix-numpy-fp32-b2-x1[]]",
            "test_suite.py::test_accuracy[[]matrix-numpy-fp32-b25-x1[]]",
        ]
    )
    assert not (lab.path / "results").exists()


def test_cases_of_as_many_devices_follow_each_other(lab):
    """Their processes are started once, and not anew for each model; a suite's own tests stay."""
    (lab.path / "test_a_other.py").write_text("def test_other(): pass\n")
    result = lab("--collect-only", "-q", "--device-counts=2,1", "--backends=numpy-fp32,telling")
    cases = [line for line in result.outlines if "[" in line]
    assert [line.rpartition("-")[2] for line in cases] == ["x2]"] * 4 + ["x1]"] * 6
    assert ["throughput" in line for line in cases] == [True] * 8 + [False] * 2
    assert result.outlines[0] == "test_a_other.py::test_other"


def test_a_run_leaves_tables_a_json_and_a_journal(lab):
    result = lab("-m", "inference")
    result.assert_outcomes(passed=3)
    document = the_json(lab.path)
    assert [b["name"] for b in document["benchmarks"]] == [
        "test_throughput[matrix-numpy-fp32-b1-x1]",
        "test_throughput[matrix-numpy-fp32-b2-x1]",
        "test_accuracy[matrix-numpy-fp32-b25-x1]",
    ]
    flat = document["benchmarks"][0]["extra_info"]["benchrack"]
    assert flat["schema"] == 1
    assert flat["images_per_s"] > 0
    assert document["benchmarks"][0]["params"] == {"case": "matrix-numpy-fp32-b1-x1"}
    contents = the_journal(lab.path)
    assert contents.complete
    recorded = [m.seconds_per_batch for _, m in contents.measurements]
    assert [tuple(b["stats"]["data"]) for b in document["benchmarks"]] == recorded
    result.stdout.fnmatch_lines(["*benchrack*", "*matrix*numpy-fp32*", "results: results/*.json"])
    result.stdout.no_fnmatch_line("*Name (time in*")  # pytest-benchmark's table


def test_seconds_per_batch_are_pytest_benchmarks_statistics(lab):
    lab("-k", "throughput and b2")
    (benchmark,) = the_json(lab.path)["benchmarks"]
    rate = benchmark["extra_info"]["benchrack"]["images_per_s"]
    assert 2 / benchmark["stats"]["median"] == pytest.approx(rate, rel=0.25)
    assert benchmark["stats"]["rounds"] == benchmark["extra_info"]["benchrack"]["rounds"]


def test_unsupported_and_out_of_memory_are_skips_with_reasons(lab):
    result = lab("-m", "throughput", "--backends=absent,full,numpy-fp32", "-rs")
    assert result.ret == 0
    result.assert_outcomes(passed=2, skipped=4)
    result.stdout.fnmatch_lines_random(
        ["*SKIPPED*no such card in this machine*", "*SKIPPED*out of memory: 3 GiB were asked*"]
    )
    document = the_json(lab.path)
    assert statuses(document) == ["out-of-memory"] * 2 + ["unsupported"] * 2
    assert len(document["benchmarks"]) == 2
    assert "was not used at all" not in result.stdout.str()


def test_a_run_in_which_nothing_succeeds_still_writes_its_json(lab):
    result = lab("--backends=absent")
    assert result.ret == 0
    document = the_json(lab.path)
    assert document["benchmarks"] == []
    assert statuses(document) == ["unsupported"] * 3
    assert "machine_info" in document


def test_an_exception_in_one_case_fails_it_and_the_sweep_goes_on(lab):
    result = lab("-m", "throughput", "--backends=broken,numpy-fp32")
    result.assert_outcomes(failed=2, passed=2)
    result.stdout.fnmatch_lines(["*RuntimeError: kernel launch failed*"])
    document = the_json(lab.path)
    assert statuses(document) == ["failed"] * 2
    assert document["benchrack"]["outcomes"][0]["reason"] == "RuntimeError: kernel launch failed"
    assert len(document["benchmarks"]) == 2


def test_dash_x_notes_what_was_not_reached(lab):
    result = lab("-x", "-m", "throughput", "--backends=broken,numpy-fp32")
    result.assert_outcomes(failed=1)
    assert statuses(the_json(lab.path)) == ["failed", "not-run", "not-run", "not-run"]


def test_last_failed_runs_only_what_failed(lab):
    lab("-m", "throughput", "--backends=broken,numpy-fp32")
    result = lab("-m", "throughput", "--backends=broken,numpy-fp32", "--lf")
    result.assert_outcomes(failed=2)


def test_a_selection_of_nothing_says_so_and_leaves_no_results(lab):
    result = lab("-k", "no_such_test")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert not (lab.path / "results").exists()


@pytest.fixture(params=["in-process", "worker"])
def executor(request, monkeypatch):
    if request.param == "worker":
        monkeypatch.setenv("BENCHRACK_IN_WORKER", "1")
    return f"--set=executor={request.param}"


def test_ctrl_c_in_warm_up_keeps_the_cases_before(lab, executor):
    result = lab.apart("-m", "throughput", "--backends=numpy-fp32,ctrl-c", executor)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    document = the_json(lab.path)
    assert len(document["benchmarks"]) == 2
    assert statuses(document) == ["interrupted", "not-run"]
    assert the_journal(lab.path).complete


def test_ctrl_c_while_measuring_never_keeps_a_truncated_case(lab, monkeypatch, executor):
    monkeypatch.setenv("CALLS", "30")
    result = lab.apart(
        "-m", "throughput", "--backends=numpy-fp32,late-ctrl-c", "--set=time_limit_s=9", executor
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED
    names = [b["name"] for b in the_json(lab.path)["benchmarks"]]
    assert not any("late-ctrl-c" in name for name in names)


def test_sigterm_ends_the_run_with_its_files(lab, executor):
    result = lab.apart("-m", "throughput", "--backends=numpy-fp32,terminated", executor)
    assert result.ret == 128 + signal.SIGTERM
    document = the_json(lab.path)
    assert len(document["benchmarks"]) == 2
    assert "interrupted" in statuses(document)
    result.stdout.fnmatch_lines(["Throughput, images/s", "matrix *numpy-fp32*", "*results/*.json*"])


def test_sigkill_leaves_the_journal(lab):
    """Nothing can be written after SIGKILL; what was measured is in the journal already."""
    environment = os.environ | {"BENCHRACK_CACHE_DIR": str(lab.path / "cache")}
    selection = ("-m", "throughput", "--backends=numpy-fp32,hanging")
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", *lab.options, *selection],
        cwd=lab.path,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not (lab.path / "hanging").exists() and time.monotonic() < deadline:
            os.sched_yield()
    finally:
        run.kill()
        run.wait()
    contents = the_journal(lab.path)
    assert not contents.complete
    assert len(contents.measurements) == 2
    assert not list((lab.path / "results").glob("*.json"))


def test_without_pytest_benchmark_the_journal_has_everything(lab):
    result = lab("-m", "throughput", "-p", "no:benchmark")
    result.assert_outcomes(passed=2)
    assert len(the_journal(lab.path).measurements) == 2
    result.stdout.fnmatch_lines(["*matrix*numpy-fp32*", "results: results/*.jsonl"])


def test_with_benchmarks_disabled_the_journal_has_everything(lab):
    result = lab("-m", "throughput", "--benchmark-disable")
    result.assert_outcomes(passed=2)
    assert len(the_journal(lab.path).measurements) == 2
    result.stdout.fnmatch_lines(["*matrix*numpy-fp32*"])


def test_benchmark_only_keeps_the_suites(lab):
    lab("--benchmark-only").assert_outcomes(passed=3)


def test_benchmark_skip_skips_them(lab):
    lab("--benchmark-skip").assert_outcomes(skipped=3)


def test_a_json_that_the_user_names_is_written_there_even_into_a_missing_folder(lab):
    lab("-m", "throughput", "--benchmark-json=new/folder/mine.json").assert_outcomes(passed=2)
    document = json.loads((lab.path / "new" / "folder" / "mine.json").read_text())
    assert len(document["benchmarks"]) == 2
    assert document["benchrack"]["schema"] == 1
    assert not list((lab.path / "results").glob("*.json"))


def test_a_json_that_the_user_names_is_written_even_when_nothing_succeeds(lab):
    lab("--backends=absent", "--benchmark-json=mine.json")
    assert json.loads((lab.path / "mine.json").read_text())["benchmarks"] == []


def test_results_go_where_the_option_says(lab):
    lab("-k", "b1", "--results=elsewhere/deep").assert_outcomes(passed=1)
    assert list((lab.path / "elsewhere" / "deep").glob("*.json"))


def test_a_results_folder_that_can_not_be_written_is_said_before_measuring(lab):
    (lab.path / "file").write_text("")
    result = lab("--results=file/results")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*ERROR: the journal*can't be written: Not a directory*"])


def test_a_full_disk_loses_nothing_that_can_be_kept(lab, monkeypatch):
    """Writing fails from the second record on: the tables are complete, and the loss is said."""
    import errno

    real, calls = os.write, []

    def failing(descriptor, data):
        if data.startswith(b'{"kind": "measurement"'):
            calls.append(data)
            if len(calls) > 1:
                raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr("os.write", failing)
    result = lab("-m", "throughput")
    result.assert_outcomes(passed=2)
    assert len(the_json(lab.path)["benchmarks"]) == 2
    assert len(the_journal(lab.path).measurements) == 1
    result.stdout.fnmatch_lines(["*matrix*numpy-fp32*", "*No space left on device*"])


def test_a_json_that_can_not_be_written_points_to_the_journal(lab, monkeypatch):
    def failing(source, target):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", failing)
        result = lab("-m", "throughput")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*No space left on device. The journal *.jsonl has all records*"])
    assert not [p for p in (lab.path / "results").iterdir() if p.suffix != ".jsonl"]


def test_what_is_in_no_file_is_said_to_be_lost_and_fails_the_run(lab, monkeypatch):
    """A disk that is full takes neither the JSON nor what the journal would have held."""
    written = journal._write_whole

    def failing(descriptor, line):
        if b'"measurement"' in line:
            raise OSError(28, "No space left on device")
        written(descriptor, line)

    def refusing(source, target):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journal, "_write_whole", failing)
        patch.setattr("os.replace", refusing)
        result = lab("-m", "throughput")
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*lacks 2 of its lines too: what they held is lost*"])
    assert "has all records" not in result.stdout.str()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--models=matrx"], "unknown model 'matrx'. Did you mean 'matrix'?"),
        (["--backends=nope"], "unknown backend 'nope'. Known: "),
        (["--sweep=nope"], "unknown sweep 'nope'"),
        (["--sweep=absent.toml"], "absent.toml can't be read"),
        (["--set", "time=3"], "unknown setting 'time'"),
        (["--batch-sizes=0"], "whole numbers from 1, found '0'"),
        (["--device=cuda:9"], "no NVIDIA card is visible"),
        (["--device=tpu"], "--device=tpu: expected auto, cpu, cuda"),
        (["--device=cpu:0"], "--device=cpu:0: expected auto, cpu, cuda"),
        (["--set", "starts=0"], "--set, starts: expected a whole number, one or more, found '0'"),
        (["--dataset=nope"], "unknown dataset 'nope'"),
        (["--weights=absent"], "absent: there is no such file or folder"),
        (["--nnodes=2"], "--node-rank is missing"),
        (["--nnodes=2", "--node-rank=2", "--rdzv-endpoint=a:1"], "the ranks are 0 to 1"),
        (["--nnodes=2", "--node-rank=1", "--rdzv-endpoint=a:1"], "has no key to show at a:1"),
        (
            ["--nnodes=2", "--node-rank=0", "--rdzv-endpoint=a:1", "--key-file=absent"],
            "absent can't be read: No such file",
        ),
    ],
)
def test_a_wrong_option_is_one_readable_line(lab, arguments, words):
    result = lab(*arguments)
    assert result.ret in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED)
    text = result.stdout.str() + result.stderr.str()
    assert words in text
    assert "Traceback" not in text
    assert "_pytest" not in text


def test_a_worker_measures_the_same_cases(lab):
    result = lab("--set=executor=worker")
    result.assert_outcomes(passed=3)
    assert len(the_json(lab.path)["benchmarks"]) == 3


def test_a_worker_that_crashes_ends_one_case_with_its_reason(lab):
    result = lab("-m", "throughput", "--backends=segfault,numpy-fp32", "--set=executor=worker")
    result.assert_outcomes(failed=2, passed=2)
    reasons = {o["reason"] for o in the_json(lab.path)["benchrack"]["outcomes"]}
    assert all("ended by SIGSEGV" in reason for reason in reasons)


def test_starts_are_records_of_fresh_processes_in_a_shuffled_order(lab):
    """Each start is a test and a record of its own; accuracy has one."""
    result = lab("-v", "--set=starts=3", "--set=executor=worker", "--set=seed=4")
    result.assert_outcomes(passed=7)
    records = [b["extra_info"]["benchrack"] for b in the_json(lab.path)["benchmarks"]]
    starts = [(r["batch_size"], r["start"]) for r in records if r["scenario"] == "throughput"]
    assert sorted(starts) == [(b, s) for b in (1, 2) for s in (1, 2, 3)]
    assert starts != sorted(starts)


def test_starts_are_different_processes(lab):
    chosen = ("-k", "b1 and throughput", "--backends=telling", "--set=executor=worker")
    lab(*chosen, "--set=starts=3").assert_outcomes(passed=3)
    assert len(set((lab.path / "pids").read_text().split())) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set=starts=2",), "starts=2 measures each case in fresh processes"),
        (("--set=publish=true",), "publish=true measures each case in fresh processes"),
        (("--set=starts=2", "--set=executor=worker", "--pdb"), "and --pdb keeps all in this one"),
    ],
)
def test_several_starts_in_one_process_are_refused_before_measuring(lab, arguments, words):
    result = lab(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stdout.str() + result.stderr.str()
    assert not (lab.path / "results").exists()


@pytest.fixture
def published(lab, monkeypatch):
    """`published(backend, …)` measures one case to be published, as fast as the others here."""
    monkeypatch.setenv("JUDGED_BY_ENGINE", "1")
    monkeypatch.setattr(sweep, "PUBLISHED_TIME_LIMIT_S", 0.02)
    preset = ("--set=executor=worker", "--set=publish=true", "-k", "b1 and throughput")

    def run(backend, *more):
        return lab(*preset, f"--backends={backend}", *more)

    return run


def test_a_published_number_has_six_starts_in_fresh_processes(lab, published):
    result = published("telling")
    result.assert_outcomes(passed=6)
    assert len(set((lab.path / "pids").read_text().split())) == 6
    records = [b["extra_info"]["benchrack"] for b in the_json(lab.path)["benchmarks"]]
    assert sorted(record["start"] for record in records) == [1, 2, 3, 4, 5, 6]
    assert {record["verdict"] for record in records} == {"valid"}
    assert "too-few-starts" not in result.stdout.str()


def test_a_start_that_is_not_valid_fails_when_publishing_and_leaves_too_few(lab, published):
    """The tables after the run mark the case, and so do those of the file."""
    result = published("falling-once")
    result.assert_outcomes(passed=5, failed=1)
    said = "too-few-starts: a published number needs 6, and 5 are valid"
    assert said in result.stdout.str()
    assert said in render_all(load([lab.path / "results"]), "terminal")
    records = [b["extra_info"]["benchrack"] for b in the_json(lab.path)["benchmarks"]]
    assert sorted(record["verdict"] for record in records) == ["not valid", *["valid"] * 5]


def test_a_debugger_gets_the_case_in_its_own_process(lab):
    result = lab("-m", "throughput", "--backends=broken", "--set=executor=worker", "--pdb", "-s")
    result.stdout.fnmatch_lines(["*RuntimeError: kernel launch failed*"])
    assert "WorkerError" not in result.stdout.str()


def test_rows_that_are_not_valid_fail_when_pytest_is_strict(lab):
    """Plain pytest shows the reason under the table, --strict makes it a failure."""
    fallen = ("-k", "b1 and throughput", "--backends=fallen")
    result = lab(*fallen)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*not valid, fell-back: it ran on the CPU*"])
    result = lab(*fallen, "--strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*not valid: *fell-back: it ran on the CPU*"])
    assert the_json_files(lab.path)[-1]["benchmarks"]


def test_the_strictness_of_a_labs_own_tests_says_nothing_about_rows(lab):
    """The ini key `strict`, which pytest 9 knows, is about markers and such."""
    lab.path.joinpath("tox.ini").write_text("[pytest]\nstrict = true\nmarkers = inference\n")
    lab("-k", "b1 and throughput", "--backends=fallen").assert_outcomes(passed=1)


def the_json_files(folder):
    paths = sorted((folder / "results").glob("*.json"), key=lambda p: p.stat().st_mtime_ns)
    return [json.loads(path.read_text()) for path in paths]


def test_a_verbose_run_shows_what_each_case_measured(lab):
    lab("-v", "-k", "b1").stdout.fnmatch_lines(["*b1-x1* images/s*"])
    lab("-v", "-m", "accuracy").stdout.fnmatch_lines(["*b25-x1* top-1 90.0 % of 40*"])


def test_a_verbose_run_shows_why_a_case_is_not_valid(lab):
    result = lab("-v", "-k", "b1 and throughput", "--backends=fallen")
    result.stdout.fnmatch_lines(["*b1-x1* images/s * ! *fell-back: it ran on the CPU*"])


def test_nothing_is_drawn_into_a_pipe(lab):
    assert "\x1b" not in lab().stdout.str()


def test_a_scenario_that_the_sweep_lacks_is_a_skip_with_its_reason(lab):
    (lab.path / "mine.toml").write_text(suites.sweep(throughput=THROUGHPUT))
    lab("-rs", "-m", "accuracy").stdout.fnmatch_lines(["*SKIPPED*the sweep has no table*accuracy*"])


def test_markers_and_options_are_explained(lab):
    lab("--markers").stdout.fnmatch_lines(["@pytest.mark.inference: *"])
    lab("--help").stdout.fnmatch_lines(["Benchrack: what to measure, and on what:", "*--sweep=*"])


def test_plugins_can_be_switched_off(lab):
    result = lab("--disable-plugins=pytorch", "--backends=pytorch-fp32")
    assert "unknown backend 'pytorch-fp32'" in result.stdout.str() + result.stderr.str()
