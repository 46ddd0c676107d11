"""What a run takes over from an earlier one: valid records of the same case, code and machine."""

from __future__ import annotations

import dataclasses
import json

import pytest
from fakes import laboratory as lab, measurements as made
from fakes.settings import make_settings

from benchrack.cases.resuming import differences, take_over
from benchrack.errors import UnsupportedError
from benchrack.flattening import flatten
from benchrack.pytest_plugin.resume import present
from benchrack.records import journal
from benchrack.records.journal import Header, Journal
from benchrack.vocabulary.results import OutputCheck, Preparation

MACHINE = {
    "machine": "b3b6eaffe456",
    "cpu_usable_cores": 16,
    "accelerators_driver": "580.65",
    "accelerators_power_limit_w": [75.0, 75.0],
    "call_environment": ["OMP_NUM_THREADS=8"],
    "call_git_commit": "a" * 40,
    "call_git_dirty": False,
    "software_benchrack": "0.1.0",
    "software_python": "3.11.7",
    "software_torch": "2.14.1",
    "software_torchvision": "0.29.1",
    "software_onnxruntime_gpu": "1.31.1",
    "software_nvidia_cudnn_cu13": "9.24",
    "software_nvidia_ml_py": "13.6",
    "software_pytest": "9.2",
    "software_pillow": "13.0",
}


def case(backend="torch-fp32", batch_size=1, **axes):
    return made.case(backend=backend, batch_size=batch_size, **axes)


def measured(case, start=1, **changes):
    """A valid record of a case on the laboratory's squares."""
    plain = made.bare(case=case, start=start, preparation={"data_digest": "squares-1"})
    return made.but(plain, **changes)


@pytest.fixture
def bench(tmp_path):
    return lab.bench(
        tmp_path,
        dataclasses.replace(lab.backend("torch-fp32"), requires=("torch",)),
        dataclasses.replace(lab.backend("ort-int8"), requires=("onnxruntime",)),
    )


def header(bench, settings=None, device="cpu", **facts):
    return Header(
        run="r1",
        started="2026-11-30T10:00:00+00:00",
        machine={**MACHINE, **facts},
        settings=flatten(settings or bench.settings),
        device=device,
    )


def resume(bench, measurements, wanted, earlier=None, now=None):
    now = present(bench, now or header(bench))
    return take_over(earlier or header(bench), measurements, now, set(wanted))


def test_valid_records_of_wanted_starts_are_taken_over(bench):
    records = [
        measured(case()),
        measured(case(batch_size=8)),
        measured(case(batch_size=32), reasons=("noisy: rounds vary by 40 %",)),
        measured(case(batch_size=64), start=2),
    ]
    wanted = [(case(batch_size=b), 1) for b in (1, 16, 32, 64)]
    taken = resume(bench, records, wanted)
    assert taken.same
    assert taken.starts == {(case(), 1)}
    assert taken.differences == ()


def test_a_start_is_not_another_start(bench):
    records = [measured(case(), start=start) for start in (1, 2, 5)]
    taken = resume(bench, records, [(case(), start) for start in range(1, 7)])
    assert taken.starts == {(case(), 1), (case(), 2), (case(), 5)}


def test_what_is_not_valid_by_the_limits_of_now_is_measured_again(bench):
    """A tighter limit is a reason to measure again; a looser one does not make a record valid."""
    check = OutputCheck(
        images=8,
        reference="torch-fp32",
        max_relative_error=0,
        cosine=1,
        agreement=1,
        input_spread=1e-3,
    )
    records = [measured(case(), output_check=check)]
    assert resume(bench, records, [(case(), 1)]).starts
    bench = lab.again(bench, limit_spread=1e-2)
    assert not resume(bench, records, [(case(), 1)]).starts


@pytest.mark.parametrize(
    ("fact", "value", "words"),
    [
        ("machine", "0a11", "machine (b3b6eaffe456 then, 0a11 now)"),
        ("cpu_usable_cores", 8, "usable cores (16 then, 8 now)"),
        ("accelerators_driver", "590", "driver (580.65 then, 590 now)"),
        ("accelerators_power_limit_w", [75, 50], "power limits (75.0, 75.0 then, 75, 50 now)"),
        ("call_environment", [], "environment variables (OMP_NUM_THREADS=8 then, none now)"),
        ("call_git_commit", "b" * 40, "Benchrack's commit (aaaa"),
        ("call_git_commit", None, "Benchrack's commit (aaaa"),
        ("software_benchrack", "0.2", "Benchrack (0.1.0 then, 0.2 now)"),
        ("software_python", "3.12.1", "Python (3.11.7 then, 3.12.1 now)"),
        ("software_nvidia_cudnn_cu13", "9.30", "nvidia_cudnn_cu13 (9.24 then, 9.30 now)"),
    ],
)
def test_another_machine_or_other_code_takes_nothing_over(bench, fact, value, words):
    taken = resume(bench, [measured(case())], [(case(), 1)], now=header(bench, **{fact: value}))
    assert not taken.same
    assert not taken.starts
    assert len(taken.differences) == 1
    assert words in taken.differences[0]


@pytest.mark.parametrize("fact", ["software_pytest", "software_nvidia_ml_py", "host_kernel"])
def test_what_no_measurement_depends_on_may_change(bench, fact):
    assert differences(header(bench), header(bench, **{fact: "other"})) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", 1),
        ("threads", 1),
        ("transfer", "include"),
        ("time_limit_s", 10.0),
        ("interval", 0.005),
        ("reference", "other"),
        ("starts", 6),
    ],
)
def test_settings_that_matter(bench, key, value):
    other = make_settings(bench.settings, **{key: value})
    (difference,) = differences(header(bench), header(bench, settings=other))
    assert ("fresh processes" if key == "starts" else key) in difference


def test_settings_that_do_not_matter(bench):
    """A sweep of three starts each becomes one of six; where and how strictly it runs is free."""
    three = make_settings(bench.settings, starts=3)
    more = make_settings(three, starts=6, case_time_limit_s=9, publish=True, limit_variation=0.5)
    assert differences(header(bench, settings=three), header(bench, settings=more)) == []


def test_starts_in_this_process_are_not_fresh(bench):
    three = make_settings(bench.settings, starts=3)
    same = make_settings(three, executor="in-process")
    (difference,) = differences(header(bench, settings=same), header(bench, settings=three))
    assert difference == "fresh processes (False then, True now)"


def test_another_device_takes_nothing_over(bench):
    (difference,) = differences(header(bench), header(bench, device="cuda:0"))
    assert difference == "device (cpu then, cuda:0 now)"


def test_a_framework_concerns_the_cases_that_use_it(bench):
    records = [measured(case()), measured(case("ort-int8"))]
    wanted = [(case(), 1), (case("ort-int8"), 1)]
    now = header(bench, software_onnxruntime_gpu="1.32.0", software_torchvision="0.30")
    taken = resume(bench, records, wanted, now=now)
    assert taken.same
    assert taken.starts == {(case(), 1)}
    assert taken.differences == ("onnxruntime_gpu (1.31.1 then, 1.32.0 now)",)


def test_a_module_is_found_by_the_name_of_its_package(bench, monkeypatch):
    model = dataclasses.replace(lab.MODEL, requires=("PIL",))
    bench.registry.provided["model"]["matrix"] = model
    now = header(bench, software_pillow="14.0")
    taken = resume(bench, [measured(case())], [(case(), 1)], now=now)
    assert taken.differences == ("pillow (13.0 then, 14.0 now)",)


def test_what_an_engine_was_built_of_is_no_difference(bench):
    """It is known only once a session is prepared; what it depends on is compared."""
    plain = measured(case())
    built = dataclasses.replace(plain.engine, build=("CUDA 13.0", "OpenMP 2 threads"))
    assert resume(bench, [dataclasses.replace(plain, engine=built)], [(case(), 1)]).starts


@pytest.mark.parametrize("name", ["tensorrt_cu13_libs", "tensorrt", "nvidia_cudnn_cu13"])
def test_another_version_of_a_cards_libraries_is_measured(bench, name):
    now = header(bench, **{f"software_{name}": "10.14"})
    taken = resume(bench, [measured(case())], [(case(), 1)], now=now)
    assert not taken.starts
    assert name in taken.differences[0]


def test_other_pictures_are_measured(bench):
    stale = measured(case(), preparation=Preparation(prepare_s=0.1, data_digest="squares-0"))
    taken = resume(bench, [stale], [(case(), 1)])
    assert taken.same
    assert not taken.starts
    assert taken.differences == ("the images of squares",)


def of_devices(count):
    return measured(case(device_count=count))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes": ("b3b6eaffe456",)}, "machines (b3b6eaffe456, 0a11 then, b3b6eaffe456 now)"),
        ({"nodes": ("b3b6eaffe456", "0b22")}, "machines (b3b6eaffe456, 0a11 then, b3b6eaffe456,"),
        ({"devices": ("cuda:0", "cuda:2")}, "devices (cuda:0, cuda:1 then, cuda:0, cuda:2 now)"),
    ],
)
def test_several_devices_are_those_of_the_same_machines(bench, change, words):
    """What one of them did alone is the same on one machine and on two."""
    earlier = dataclasses.replace(
        header(bench), nodes=("b3b6eaffe456", "0a11"), devices=("cuda:0", "cuda:1")
    )
    records = [of_devices(1), of_devices(4)]
    wanted = [(record.case, 1) for record in records]
    assert len(resume(bench, records, wanted, earlier, earlier).starts) == 2
    taken = resume(bench, records, wanted, earlier, dataclasses.replace(earlier, **change))
    assert taken.starts == {(records[0].case, 1)}
    (difference,) = taken.differences
    assert difference.startswith(words)


def test_devices_beyond_those_of_a_case_do_not_matter(bench):
    earlier = dataclasses.replace(header(bench), nodes=("m",), devices=("cuda:0", "cuda:1"))
    now = dataclasses.replace(earlier, devices=("cuda:0", "cuda:1", "cuda:2"))
    record = of_devices(2)
    assert resume(bench, [record], [(record.case, 1)], earlier, now).starts


def test_another_plugin_takes_nothing_over(bench):
    earlier = dataclasses.replace(header(bench), plugins={"plugin lab-cards": "1.0"})
    now = dataclasses.replace(earlier, plugins={"plugin lab-cards": "1.1"})
    assert differences(earlier, earlier) == []
    assert differences(earlier, now) == ["plugin lab-cards (1.0 then, 1.1 now)"]
    assert differences(earlier, header(bench)) == ["plugin lab-cards (1.0 then, unknown now)"]


def test_other_files_of_weights_concern_the_cases_that_read_them(bench):
    own = case(weights="trained")
    earlier = dataclasses.replace(header(bench), weights={"trained": "3f2a"})
    now = dataclasses.replace(header(bench), weights={"trained": "9ab1"})
    records = [measured(case()), measured(own)]
    taken = resume(bench, records, [(case(), 1), (own, 1)], earlier, now)
    assert taken.starts == {(case(), 1)}
    assert taken.differences == ("files of --weights=trained (3f2a then, 9ab1 now)",)


def test_data_whose_package_is_gone_are_no_error(bench, monkeypatch):
    def absent(argument, settings):
        raise UnsupportedError("squares needs foolbox")

    bench.registry.provided["dataset"]["squares"] = dataclasses.replace(lab.DATASET, open=absent)
    taken = resume(bench, [measured(case())], [(case(), 1)])
    assert taken.differences == ("data of matrix: not here now",)


def test_uncommitted_changes_are_the_same_only_where_that_is_known(bench):
    dirty = {"call_git_dirty": True}
    assert differences(header(bench, **dirty), header(bench, **dirty)) == [
        "Benchrack had uncommitted changes that could not be compared"
    ]
    edited = {**dirty, "call_git_changes": "c0ffee"}
    assert differences(header(bench, **edited), header(bench, **edited)) == []
    (difference,) = differences(header(bench, **edited), header(bench))
    assert difference == "Benchrack's uncommitted changes (c0ffee then, none now)"


@pytest.mark.parametrize(
    "earlier",
    [
        Header(run="r0", started="", machine=MACHINE),
        Header(run="r0", started="", settings={"seed": 0}),
        Header(run="r0", started="", settings={"seed": 0, "starts": "many"}, machine=MACHINE),
    ],
)
def test_a_file_that_does_not_say_enough_takes_nothing_over(bench, earlier):
    """Such as one of before resuming was possible, or a strange one."""
    taken = resume(bench, [measured(case())], [(case(), 1)], earlier=earlier)
    assert not taken.same
    assert not taken.starts
    assert taken.differences


def test_a_header_keeps_what_resuming_needs(tmp_path, bench):
    """By way of a journal, and of the block in pytest-benchmark's JSON."""
    written = dataclasses.replace(
        header(bench, settings=make_settings(starts=3)),
        devices=("cuda:0", "cuda:1"),
        nodes=("b3b6eaffe456", "0a11"),
        plugins={"plugin lab-cards": "1.0"},
        weights={"trained": "3f2a"},
        resumes=("r0",),
    )
    Journal.create(tmp_path / "r1.jsonl", written).close()
    found = journal.read(tmp_path / "r1.jsonl", {}).header
    assert found == written
    assert differences(found, written) == []
    block = {"schema": 1, **dataclasses.asdict(written)}
    assert Header.read(json.loads(json.dumps(block))) == written
