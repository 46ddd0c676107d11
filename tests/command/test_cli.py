"""The command line: what it prints, what it exits with, and how fast it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import types

import pytest
from click.testing import CliRunner
from fakes import measurements as made
from fakes.scenarios import SCENARIOS

import benchrack.registry.registry
from benchrack import hookimpl
from benchrack.cache import ENVIRONMENT_VARIABLE, Cache
from benchrack.command.cli import FORMATS, cli
from benchrack.records.journal import Header, Journal
from benchrack.vocabulary.backends import Backend
from benchrack.vocabulary.datasets import Dataset
from benchrack.vocabulary.models import Model, Preprocessing
from benchrack.vocabulary.results import Outcome


@pytest.fixture
def run():
    """`benchrack ARGUMENTS…`, with stdout and stderr apart."""

    def invoke(*arguments, **options):
        return CliRunner().invoke(cli, [str(a) for a in arguments], **options)

    return invoke


def measured(rate=10.0, model="alexnet"):
    return made.throughput(images_per_s=rate, model=model, batch_size=1)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder to be in, and a function that writes results/NAME.jsonl into it."""
    monkeypatch.chdir(tmp_path)

    def write(name, *measurements, outcomes=()):
        path = tmp_path / "results" / f"{name}.jsonl"
        header = Header(run=name, started="2026-11-30T10:00:00Z", machine={"cpu": "Xeon"})
        journal = Journal.create(path, header)
        for measurement in measurements:
            journal.append_measurement(measurement, "t")
        for outcome in outcomes:
            journal.append_outcome(outcome, "t")
        journal.close()
        return path

    return write


# report ---------------------------------------------------------------------------------------


def test_report_without_files_is_of_the_newest_run(run, results):
    os.utime(results("old", measured(11.0)), (1, 1))
    results("new", measured(22.0))
    done = run("report")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "22.00" in done.stdout
    assert "11.00" not in done.stdout


def test_report_of_a_folder_holds_all_runs(run, results):
    results("a", measured(11.0))
    results("b", measured(22.0, model="vgg16"))
    done = run("report", "results")
    assert done.exit_code == 0
    assert "11.00" in done.stdout
    assert "22.00" in done.stdout


@pytest.mark.parametrize("format", FORMATS)
def test_report_writes_a_file(run, results, tmp_path, format):
    results("a", measured(11.0))
    output = tmp_path / "made" / "here" / "report"
    done = run("report", "--format", format, "-o", output)
    assert (done.exit_code, done.output) == (0, "")
    assert "11.0" in output.read_text(encoding="utf-8")
    assert [p.name for p in output.parent.iterdir()] == ["report"]


def test_report_knows_the_formats_of_the_reports():
    """The command line names them itself, so that --help imports no reports."""
    from benchrack.reports.tables import FORMATS as KNOWN

    assert FORMATS == KNOWN


def test_report_that_can_not_be_written(run, results, tmp_path):
    results("a", measured())
    (tmp_path / "file").touch()
    done = run("report", "-o", tmp_path / "file" / "report.md")
    assert done.exit_code == 2
    assert "report.md can't be written" in done.stderr
    done = run("report", "-o", tmp_path)
    assert done.exit_code == 2


def test_a_bad_file_is_reported_and_the_others_shown(run, results, tmp_path):
    good = results("a", measured(11.0))
    (tmp_path / "bad.json").write_text('{"benchmarks": [')
    done = run("report", good, "bad.json", "gone.json")
    assert done.exit_code == 1
    assert "11.00" in done.stdout
    assert done.stderr.count("benchrack: ") == 2
    assert "bad.json is not whole JSON" in done.stderr
    assert "gone.json does not exist" in done.stderr


def test_only_bad_files_are_an_error(run, results):
    done = run("report", "gone.json")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "nothing to report" in done.stderr


def test_no_results_say_how_to_get_some(run, results):
    done = run("report")
    assert done.exit_code == 2
    assert done.stderr.startswith("benchrack: no results in results: run `pytest -m inference`")


def test_a_run_in_which_nothing_succeeded_is_reported(run, results):
    outcome = Outcome(case=measured().case, status="unsupported", reason="too old a card")
    results("a", outcomes=[outcome])
    done = run("report")
    assert done.exit_code == 0
    assert "[1] unsupported: too old a card" in done.stdout


# list -----------------------------------------------------------------------------------------


def lab_plugin():
    preprocessing = Preprocessing(resize=8, crop=8, mean=(0.0,), std=(1.0,))
    plugin = types.ModuleType("lab_plugin")
    plugin.benchrack_backends = hookimpl(
        lambda: [
            Backend(
                name="lab-int4",
                framework="Lab",
                precision="int4",
                summary="four bits",
                prepare=print,
                requires=("no_such_module", "json"),
                extra="pytorch",
            ),
            Backend(
                name="lab-fp32", framework="Lab", precision="fp32", summary="all", prepare=print
            ),
        ]
    )
    plugin.benchrack_models = hookimpl(
        lambda: [
            Model(
                name="lab-net",
                summary="a small one",
                input_shape=(1, 8, 8),
                classes=2,
                preprocessing=preprocessing,
                load=print,
                requires=(),
            )
        ]
    )
    plugin.benchrack_datasets = hookimpl(
        lambda: [Dataset(name="lab-data", summary="eight images", open=print)]
    )
    return plugin


@pytest.fixture
def lab(monkeypatch):
    """A registry that holds a lab's plugin and the built-in hardware."""
    monkeypatch.setitem(sys.modules, "lab_plugin", lab_plugin())
    load = benchrack.registry.registry.load_registry
    scenarios = (f"benchrack.plugins.scenarios.{name}" for name in SCENARIOS)
    built_in = (*scenarios, "lab_plugin", "benchrack.hardware.plugin")
    monkeypatch.setattr(
        benchrack.registry.registry, "load_registry", lambda **kw: load(**kw, built_in=built_in)
    )


def test_list_backends_says_what_is_missing_and_what_to_install(run, lab):
    done = run("list", "backends")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["backend", "precision", "what", "it", "is", "ready", "from"]
    fp32, int4 = (line.split() for line in lines[2:4])
    assert fp32[:4] == ["lab-fp32", "fp32", "all", "yes"]
    assert int4[:6] == ["lab-int4", "int4", "four", "bits", "no", "[1]"]
    assert "lab_plugin, benchrack" in lines[2]
    assert lines[4] == "[1] needs no_such_module: pip install 'benchrack[pytorch]'"


def test_list_models_and_datasets(run, lab):
    done = run("list", "models")
    assert done.stdout.splitlines()[2].split()[:6] == [
        *("lab-net", "a", "small", "one", "1×8×8", "sample-photos"),
    ]
    assert "lab-data" in run("list", "datasets").stdout


def test_list_hardware_shows_the_figures_of_the_descriptors(run, lab):
    done = run("list", "hardware")
    assert done.exit_code == 0
    (p40,) = (line.split() for line in done.stdout.splitlines() if line.startswith("tesla-p40 "))
    assert p40 == ["tesla-p40", "3840", "1531", "346", "24", "12.0", "47", "250"]
    assert "poweredge-c4140" in done.stdout


def test_list_hardware_puts_named_cards_side_by_side(run, lab):
    """Table 1 of the P40-vs-P4 study."""
    rows = {
        line[:22].strip(): line[22:].split()
        for line in run("list", "hardware", "tesla-p40", "tesla-p4").stdout.splitlines()
    }
    assert rows["INT8, TOPS"] == ["47", "22"]
    assert rows["TDP, W"] == ["250", "75"]


def test_list_hardware_shows_sources_and_notes_of_what_is_named(run, lab):
    page = run("list", "hardware", "tesla-p4", "poweredge-r740").stdout
    lines = page.splitlines()
    (clock,) = (line.split() for line in lines if line.startswith("boost clock, MHz"))
    assert clock[3:5] == ["1063", "A"]
    assert clock[-3:] == ["TechPowerUp", "prints", "1114"]
    source = next(line for line in lines if line.startswith(clock[5]))
    assert "P40 vs P4 with Skylake" in source
    assert any(line.startswith("FP16 is for storing") for line in lines)
    assert any(line.startswith("p40: accelerators at most") for line in lines)
    assert "Confidence: A, read in the primary document" in page
    assert "Confidence" not in run("list", "hardware").stdout


def test_list_sweeps_counts_their_cases(run, lab):
    done = run("list", "sweeps")
    (quick,) = (line for line in done.stdout.splitlines() if line.startswith("quick"))
    assert "18 throughput" in quick


def test_list_plugins_shows_who_provides_what(run, lab):
    done = run("list", "plugins")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("lab_plugin"))
    assert "2 backends, 1 model, 1 dataset" in line


def test_a_plugin_can_be_switched_off(run, lab):
    done = run("list", "plugins", "--disable-plugins", "lab_plugin,hardware")
    assert done.exit_code == 0
    assert done.stdout.count("switched off") == 2
    assert "lab-fp32" not in run("list", "backends", "--disable-plugins=lab_plugin").stdout


def test_a_broken_plugin_is_reported_beside_the_others(run, lab, monkeypatch):
    monkeypatch.setattr(sys.modules["lab_plugin"], "benchrack_models", hookimpl(lambda: 3))
    done = run("list", "backends")
    assert done.exit_code == 1
    assert "lab-fp32" in done.stdout
    assert "benchrack_models returned" in done.stderr


def test_unknown_names_list_the_known(run, lab):
    done = run("list", "backends", "lab-fp23")
    assert done.exit_code == 2
    assert done.stderr.startswith("benchrack: unknown backend 'lab-fp23'. Did you mean 'lab-fp32'?")
    assert run("list", "weather").exit_code == 2


def test_doctor_exits_with_what_it_found(run, lab):
    """The lab's plugins lack the models of the quick sweep."""
    done = run("doctor")
    assert done.exit_code == 1
    assert "lab-int4" in done.stdout
    assert run("doctor", "--sweep", "no-such-sweep").exit_code == 2
    done = run("doctor", "--device", "gpu", "--device-counts", "1,2")
    assert done.exit_code == 2
    assert "--device=gpu" in done.stderr
    assert run("doctor", "--device-counts", "two").exit_code == 2


# cache ----------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A cache with two products of two kinds."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path / "cache"))
    store = Cache.default()
    store.get("onnx", {"model": "alexnet", "weights": "ab" * 32}, lambda p: write(p, 3 * 2**20))
    store.get("weights", {"model": "digits-cnn", "seed": 0}, lambda p: write(p, 100))
    return store


def write(folder, size):
    (folder / "product").write_bytes(bytes(size))


def test_cache_shows_what_it_holds(run, store):
    done = run("cache")
    assert done.exit_code == 0
    onnx, weights = done.stdout.splitlines()[2:4]
    assert onnx.split()[:4] == ["onnx", "model=alexnet", "weights=abababab…", "3.0"]
    assert weights.split()[:3] == ["weights", "model=digits-cnn", "seed=0"]
    assert done.stdout.splitlines()[-1] == f"2 entries, 3.0 MiB, in {store.root}"


def test_cache_clear_asks_first(run, store):
    done = run("cache", "clear", input="n\n")
    assert done.exit_code == 1
    assert "Remove 2 entries, 3.0 MiB" in done.stdout
    assert len(store.entries()) == 2
    assert run("cache", "clear", input="").exit_code == 1  # nobody there to answer
    assert len(store.entries()) == 2


def test_cache_clear_of_one_kind_leaves_the_others(run, store):
    done = run("cache", "clear", "onnx", "--yes")
    assert done.exit_code == 0
    assert "Freed 3.0 MiB" in done.stdout
    assert [entry.kind for entry in store.entries()] == ["weights"]


@pytest.mark.parametrize("kind", ["onxx", "..", "../..", "/"])
def test_cache_clear_of_an_unknown_kind_removes_nothing(run, store, kind):
    done = run("cache", "clear", kind, "--yes")
    assert done.exit_code == 2
    assert "Known: onnx, weights" in done.stderr
    assert len(store.entries()) == 2


def test_an_empty_cache_is_no_error(run, tmp_path, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path / "none"))
    assert run("cache").stdout == f"0 entries, 0 B, in {tmp_path / 'none'}\n"
    assert run("cache", "clear").exit_code == 0


# The program ----------------------------------------------------------------------------------


def program(*arguments, **options):
    command = [sys.executable, "-c", "from benchrack.command.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, check=False, **options)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_are_instant(option):
    """Under 300 ms with Python's own start; the fastest of three, as others use the machine."""

    def seconds():
        start = time.perf_counter()
        assert program(option).returncode == 0
        return time.perf_counter() - start

    assert min(seconds() for _ in range(3)) < 0.3


def test_help_imports_nothing_slow():
    code = "import sys, benchrack.command.cli; print(*{m.partition('.')[0] for m in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"torch", "numpy", "onnxruntime", "pytest", "tabulate"} & set(loaded.stdout.split())


def test_a_reader_that_goes_away_is_no_error(results):
    """`benchrack report | true`."""
    results("a", measured())
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", "from benchrack.command.cli import main; main()", "report"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert done.stderr == b""


def test_an_ascii_terminal_shows_the_figures(results):
    results("a", measured(12.5))
    done = program("report", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert b"12.50" in done.stdout


def test_json_on_stdout_is_json(results):
    results("a", measured(12.5))
    report = json.loads(program("report", "--format", "json").stdout)
    assert report["records"][0]["images_per_s"] == 12.5
