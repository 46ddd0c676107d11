"""What Benchrack 0.1.0 wrote, and made of it: changing the code's shape changes none of it.

`files` are journals and JSON files of pytest-benchmark as 0.1.0 wrote them: real runs of its suites
under pytest, whose machines and devices were made up, and whose cases were measured on the clock
and the cards of tests/fakes, worlds of several devices rank by rank. Samples were cut to the first
ten, rounded to a tenth of a microsecond; in `verdicts` each record was changed so that one rule of
the verdict speaks. `killed`, `torn`, `damaged`, `older` (later keys are missing), `newer`,
`no-block` and `another-tool` were then made of the others. They are not to be written again.

`expected` is what 0.1.0 made of them, and what it measured live on the fakes. For a change of it
that is meant,

    BENCHRACK_REWRITE_GOLDEN=1 .venv/bin/pytest tests/golden

writes it anew, and fails: the difference that git shows is what has to be reviewed.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
from pathlib import Path

import pytest
from fakes import laboratory as lab, nvml
from fakes.power import PowerTrace
from fakes.scenarios import SCENARIOS

HERE = Path(__file__).parent
REWRITE = os.environ.get("BENCHRACK_REWRITE_GOLDEN") == "1"

# All that is called of Benchrack, apart from what tests/fakes/laboratory.py calls -----------------


def render(paths, format, **options):
    """What `benchrack report` prints of some files, 100 characters wide."""
    from benchrack.reports.records import load
    from benchrack.reports.tables import render_all

    return render_all(load(paths), format, 100, **options)


def through_data(flat, samples):
    """A flat record once read and written again."""
    from benchrack.records.record import from_record, to_record

    return to_record(from_record(flat, samples, SCENARIOS))


def reasons(flat, samples, settings):
    """The verdict on a record, by the rules of now, with its run's settings."""
    from benchrack.flattening import unflatten
    from benchrack.records.record import from_record
    from benchrack.registry.registry import load_registry
    from benchrack.verdict.rules import judge
    from benchrack.vocabulary.descriptors import match
    from benchrack.vocabulary.scenarios import Yardstick
    from benchrack.vocabulary.settings import Settings

    registry = load_registry()
    card, _ = match(flat["engine_device"], None, tuple(registry.accelerators.values()))
    by = Yardstick(
        settings=unflatten(Settings, settings),
        scenario=registry.scenario(flat["scenario"]),
        card=card,
    )
    return list(judge(from_record(flat, samples, registry.scenarios), by))


def copied(source, target):
    """A journal that is read, and written again: its measurements first, then its outcomes."""
    from benchrack.records.journal import Journal, read

    contents = read(source, SCENARIOS)
    journal = Journal.create(target, contents.header)
    for nodeid, measurement in contents.measurements:
        journal.append_measurement(measurement, nodeid)
    for nodeid, outcome in contents.outcomes:
        journal.append_outcome(outcome, nodeid)
    journal.close()


def measured(bench, scenario):
    """The flat record of a live case, and its samples."""
    from benchrack.execution.running import run_case
    from benchrack.records.record import to_record
    from benchrack.vocabulary.cases import Case

    case = Case(scenario=scenario, model="matrix", backend="numpy-fp32", batch_size=4)
    found = run_case(bench, case)
    return {**to_record(found), "seconds_per_batch": list(found.seconds_per_batch)}


def bench_of(where, folder, fake_nvml):
    """A place to measure: on the CPU, or on a V100 whose meter is NVML's; the host is a fake."""
    from benchrack.energy.metering import Idle, Metering, Opened, open_meters
    from benchrack.machine.surroundings import CpuTimes
    from benchrack.plugins.meters.nvml import benchrack_meters
    from benchrack.registry.registry import load_registry
    from benchrack.vocabulary.devices import Device

    clock = lab.Clock()
    costs = (0.010 + 0.0001 * (index * 7 % 5) for index in range(1_000_000))
    behaviour = {"clock": clock, "cost": lambda index: next(costs), "launch_s": 0.0001}
    engine = dataclasses.replace(lab.ENGINE, version="1.0")
    if where == "cpu":
        device, meters, idle = Device(kind="cpu", name="cpu"), Opened(absent={"rapl": "no"}), {}
    else:
        steady = PowerTrace([(-2, 42.0), (-1, 250.0), (0, 250.0)])
        card = nvml.v100(0x1A, [], trace=steady, processes=((os.getpid(), 1),))
        fake_nvml(nvml.Machine(cards=[card], clock=clock))
        device = Device(kind="cuda", name=card.name, uuid=card.uuid, pci_id="1db1")
        engine = dataclasses.replace(engine, device=card.name, threads=None)
        opened = open_meters(benchrack_meters(), [device], clock)
        # Nothing but the clock's readers moves the clock: a thread would read when it likes.
        meters = dataclasses.replace(opened, threaded=False)
        idle = {"accelerator": Idle(power_w=40.0, spread_w=1.0, windows=5, window_s=1.0)}
        behaviour |= {"copy_in_s": 0.001, "copy_out_s": 0.0005}
    tested = lab.backend(engine=engine, **behaviour)
    bench = lab.bench(
        folder, tested, clock=clock, device=device, time_limit_s=3, latency_samples=500
    )
    bench.registry.provided["accelerator"] = load_registry().provided["accelerator"]

    def cpu_times():
        busy_s, total_s, own_s = (share * clock.now for share in (0.6, 2, 0.5))
        return CpuTimes(busy_s=busy_s, total_s=total_s, own_s=own_s, cpus=2, tick_s=0.01)

    metering = Metering(opened=meters, idle=idle)
    return dataclasses.replace(bench, metering=metering, cpu_times=cpu_times)


# What is the machine's that runs this test: the CPU's memory, and its cores.
OF_THIS_MACHINE = {
    "usable_cores",
    "footprint_peak_gib",
    "footprint_batches_gib",
    "footprint_free_gib",
}

# Groups of files, and how they are reported ------------------------------------------------------

FILES = sorted(path.name for path in (HERE / "files").iterdir())
# Those with which something is wrong: only Markdown and JSON say what could not be read.
ODD = ("killed", "torn", "damaged", "older", "newer", "no-block", "another-tool")
ALL = ("terminal", "markdown", "csv", "json")
ALONE = {
    name.replace(".", "-"): ([name], ALL if name.startswith(ODD) else ("terminal", "csv"), {})
    for name in FILES
}
TOGETHER = {
    "all": (["."], ("markdown",), {}),
    "two-machines": (["p4.jsonl", "p40.jsonl"], ("markdown",), {}),
    "scaling": (["v100.json", "two-nodes.jsonl"], ("terminal", "markdown"), {}),
    "resumed": (["cpu.json", "cpu-resumed.jsonl"], ("terminal", "markdown", "json"), {}),
    "published": (["p4.jsonl"], ("terminal",), {"published": True}),
    "nothing-published": (["cpu.json"], ("terminal",), {"published": True}),
    "relative-to-p40": (["p4.jsonl", "p40.jsonl"], ("terminal",), {"relative_to": "P40"}),
    "relative-to-v100": (
        ["p4.jsonl", "v100.json"],
        ("markdown",),
        {"relative_to": "Tesla V100-SXM2-16GB"},
    ),
}
GROUPS = ALONE | TOGETHER
SUFFIXES = {"terminal": "txt", "markdown": "md", "csv": "csv", "json": "json"}
RENDERED = [(name, format) for name, (_, formats, _) in GROUPS.items() for format in formats]


def rows(text):
    """CSV as rows by column, in which the order of columns does not count."""
    return list(csv.DictReader(io.StringIO(text)))


READ = {"terminal": str, "markdown": str, "csv": rows, "json": json.loads}


def expected(name, text):
    """The stored text of a name; where it is to be rewritten, `text` is it from now on."""
    path = HERE / "expected" / name
    if REWRITE and (not path.exists() or path.read_text() != text):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        pytest.fail(f"{path} is rewritten: look at its difference", pytrace=False)
    return path.read_text()


@pytest.mark.parametrize(("name", "format"), RENDERED, ids=map("-".join, RENDERED))
def test_reports_are_what_they_were(monkeypatch, name, format):
    monkeypatch.chdir(HERE / "files")
    files, _, options = GROUPS[name]
    text = render([Path(file) for file in files], format, **options)
    stored = expected(f"{name}.{SUFFIXES[format]}", text)
    assert READ[format](text) == READ[format](stored)


def test_nothing_is_stored_that_is_not_compared():
    names = {f"{name}.{SUFFIXES[format]}" for name, format in RENDERED}
    names |= {f"live-{where}-{scenario}.json" for where, scenario in LIVE}
    assert {path.name for path in (HERE / "expected").iterdir()} == names


# Records -----------------------------------------------------------------------------------------


def stored_records():
    """Each stored record with its samples, by file and place."""
    journals = [name for name in FILES if name.endswith(".jsonl")]
    for name in journals:
        for number, line in enumerate((HERE / "files" / name).read_text().splitlines(), 1):
            try:
                found = json.loads(line)
            except ValueError:  # torn or damaged, on purpose
                continue
            if found["kind"] == "measurement" and found["record"]["schema"] == 1:
                where = f"{name}-{number}"
                yield pytest.param(found["record"], found["seconds_per_batch"], id=where)
    for name in sorted(set(FILES) - set(journals)):
        for number, one in enumerate(json.loads((HERE / "files" / name).read_text())["benchmarks"]):
            if flat := one["extra_info"].get("benchrack"):
                yield pytest.param(flat, one["stats"]["data"], id=f"{name}-{number}")


@pytest.mark.parametrize(("flat", "samples"), list(stored_records()))
def test_a_record_survives_reading_and_writing(flat, samples):
    again = through_data(flat, samples)
    assert {key: again.get(key, "gone") for key in flat} == flat
    # What an older file lacks is not known: null, or empty.
    assert not any(again[key] for key in again.keys() - flat.keys())


RENAMED = ("foreign-load:", "cpu-contention:")  # the rule is called by the field's word now
WHOLE = [name for name in FILES if name.endswith(".jsonl") and not name.startswith(ODD)]


@pytest.mark.parametrize("name", WHOLE)
def test_the_rules_say_what_they_said(name):
    header, *lines = map(json.loads, (HERE / "files" / name).read_text().splitlines())
    stored = [line for line in lines if line["kind"] == "measurement"]
    found = [
        reasons(line["record"], line["seconds_per_batch"], header["settings"]) for line in stored
    ]
    told = [line["record"]["reasons"] for line in stored]
    assert found == [[reason.replace(*RENAMED) for reason in reasons] for reasons in told]


@pytest.mark.parametrize("name", WHOLE)
def test_a_journal_survives_reading_and_writing(tmp_path, name):
    copied(HERE / "files" / name, tmp_path / name)
    then, now = (
        sorted(map(json.loads, path.read_text().splitlines()), key=lambda line: line["kind"])
        for path in (HERE / "files" / name, tmp_path / name)
    )
    assert now == then


# Live measurements -------------------------------------------------------------------------------

LIVE = [(w, s) for w in ("cpu", "v100") for s in ("throughput", "latency", "accuracy")]


@pytest.fixture(scope="module")
def pools():
    """The distinct inputs of all benches here: making them takes longer than all else."""
    return {}


@pytest.mark.parametrize(("where", "scenario"), LIVE)
def test_a_live_measurement_gives_the_record_that_it_gave(
    tmp_path, fake_nvml, pools, where, scenario
):
    bench = bench_of(where, tmp_path, fake_nvml)
    bench = dataclasses.replace(bench, data=dataclasses.replace(bench.data, _pools=pools))
    record = json.loads(json.dumps(measured(bench, scenario)))
    left_out = OF_THIS_MACHINE if where == "cpu" else {"usable_cores"}
    record |= dict.fromkeys(left_out & record.keys(), "this machine's")
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
    stored = expected(f"live-{where}-{scenario}.json", "{" + ",\n".join(lines) + "}\n")
    assert record == {key: nearly(value) for key, value in json.loads(stored).items()}


def nearly(value):
    """Figures but for what the processor's rounding makes of them; anything else as it is."""
    figures = value if isinstance(value, list) else [value]
    plain = all(isinstance(one, int | float) and not isinstance(one, bool) for one in figures)
    return pytest.approx(value, rel=1e-5, abs=1e-9) if plain else value
