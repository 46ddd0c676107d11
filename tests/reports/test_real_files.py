"""The format as pytest-benchmark really writes it, and what reading it must not import."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from benchrack.flattening import flatten
from benchrack.records.journal import Header
from benchrack.records.record import SCHEMA, to_record
from benchrack.reports.records import load
from benchrack.reports.tables import render_all

SAMPLES = (0.0101, 0.1 + 2**-54, 1 / 3)


@pytest.fixture(scope="module")
def written(tmp_path_factory, make):
    """Files of a real run of pytest-benchmark: with samples (--benchmark-json), and without."""
    folder = tmp_path_factory.mktemp("suite")
    record = to_record(make.measured(99.5, samples=SAMPLES))
    block = {
        "schema": SCHEMA,
        "run": "real",
        "started": "2026-11-30T10:00:00+00:00",
        "command": ["pytest"],
        "machine": make.R740,
        "outcomes": [flatten(make.missed("unsupported", "no card", batch_size=8))],
    }
    hook = f"""
        def pytest_benchmark_update_json(output_json):
            output_json["benchrack"] = {block!r}
        """
    (folder / "conftest.py").write_text(textwrap.dedent(hook))
    test = f"""
        import pytest

        reads = [r for s in {SAMPLES!r} for r in (0.0, s)]

        @pytest.mark.benchmark(timer=lambda: reads.pop(0))
        def test_throughput(benchmark):
            benchmark.extra_info["benchrack"] = {record!r}
            benchmark.pedantic(lambda: None, rounds=len({SAMPLES!r}), iterations=1)

        def test_of_somebody_else(benchmark):
            benchmark.extra_info["nan"] = float("nan")
            benchmark.pedantic(lambda: None, rounds=1)
        """
    (folder / "test_suite.py").write_text(textwrap.dedent(test))
    options = [
        "--benchmark-json=out.json",
        "--benchmark-save=saved",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    command = [sys.executable, "-m", "pytest", *options]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (saved,) = folder.glob(".benchmarks/*/*_saved.json")
    return folder / "out.json", saved


def test_a_real_file_is_read_to_the_last_bit(written, make):
    results = load([written[0]])
    assert results.problems == results.notes == ()
    (record,) = results.records
    assert record.measurement == make.measured(99.5, samples=SAMPLES)
    assert record.run.machine == "PowerEdge R740, 4× Tesla P4"
    assert record.run.name == "real"
    assert results.misses[0].outcome.reason == "no card"
    assert "99.50 ±0.8 %" in render_all(results, "terminal")


def test_the_saved_file_without_samples_is_the_same_run(written):
    full, saved = written
    assert load([saved]).records[0].measurement.seconds_per_batch == ()
    assert [r.run.source for r in load([saved, full]).records] == [full]


def test_pytest_benchmark_still_reads_its_file(written):
    command = [sys.executable, "-m", "pytest_benchmark", "compare", str(written[0])]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "test_throughput" in run.stdout


def test_a_cut_off_file_names_the_way_out(written, tmp_path):
    torn = tmp_path / "torn.json"
    torn.write_bytes(written[0].read_bytes()[:-500])
    results = load([torn, written[0]])
    assert len(results.records) == 1
    assert "torn.json is not whole JSON" in results.problems[0]
    assert "journal" in results.problems[0]


def test_reports_import_no_framework(written):
    """A CI job that only builds reports installs no torch, and no numpy."""
    code = f"""
import sys
from pathlib import Path
from benchrack.reports import records, tables
results = records.load([Path({str(written[0])!r})])
for format in tables.FORMATS:
    tables.render_all(results, format)
print(*sorted({{"torch", "numpy", "onnxruntime", "pynvml", "pytest", "PIL"}} & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


def test_forty_machines(write_json, make, tmp_path):
    """Each with its own rows, none lost; names in a table are as many as there are machines."""
    for i in range(40):
        machine = {**make.LAPTOP, "node": f"node{i:02}"}
        write_json(f"{i}.json", [make.measured(100.0 + i)], run=f"r{i}", machine=machine)
    results = load([tmp_path])
    assert len({r.run.machine for r in results.records}) == 40
    text = render_all(results, "terminal")
    assert all(f"(node{i:02})" in text for i in range(40))
    assert json.loads(render_all(results, "json"))["problems"] == []


def test_the_header_of_a_block_is_that_of_a_journal(make):
    header = Header(run="r", started="s", command=("pytest",), machine=make.R740)
    block = {"schema": 1, "run": "r", "started": "s", "command": ["pytest"], "machine": make.R740}
    assert Header.read(block) == header
