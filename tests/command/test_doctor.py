"""Doctor: one screen about made-up machines, and its exit code."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from fakes import laboratory, nvml

from benchrack.command.doctor import render, run_doctor
from benchrack.errors import DeviceError, SweepError, UnsupportedError
from benchrack.hardware import descriptors
from benchrack.machine import placement
from benchrack.registry.providers import Problem
from benchrack.verdict import rules
from benchrack.vocabulary.descriptors import Accelerator, Server
from benchrack.vocabulary.meters import Meter

SWEEP = """\
[throughput]
models = ["matrix"]
backends = ["numpy-fp32", "numpy-int8"]
batch_sizes = [1, 8]
"""
CARDS = {d.name: d for d in descriptors.built_in() if isinstance(d, Accelerator)}
SERVERS = {d.name: d for d in descriptors.built_in() if isinstance(d, Server)}


@pytest.fixture
def examine(tmp_path, fake_nvml, monkeypatch):
    """Run doctor on a made-up machine, by default one without cards, with made-up plugins."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "")  # doctor sets it: restored after the test
    sweep = tmp_path / "lab.toml"

    def examine(*backends, machine=None, meters=(), problems=(), options=None, more="", **kinds):
        fake_nvml(machine or nvml.no_driver())
        sweep.write_text(SWEEP + more)
        found = laboratory.registry(*backends, **kinds)
        described = {"accelerator": CARDS, "server": SERVERS}
        provided = {**found.provided, **described, "meter": {m.name: m for m in meters}}
        found = dataclasses.replace(found, provided=provided, problems=problems)
        return run_doctor(
            found, asked=str(sweep), root=tmp_path, wait=lambda seconds: None, **options or {}
        )

    return examine


def both(**changes):
    return [
        dataclasses.replace(laboratory.backend(name), **changes)
        for name in ("numpy-fp32", "numpy-int8")
    ]


def test_exit_code_0_when_the_whole_sweep_can_run(examine):
    report = examine(*both(runs_as=lambda device: f"products on {device}"))
    assert (report.exit_code, report.obstacles, report.cases) == (0, (), 4)
    page = render(report)
    assert "backends, on the CPU" in page
    assert "  yes  numpy-fp32  numpy: products on cpu" in page
    assert "the sweep lab, 4 cases, can run here" in page


def test_a_backend_that_does_not_say_how_it_runs_shows_its_summary(examine):
    assert "numpy: a matrix product" in render(examine(*both()))


def test_exit_code_1_when_a_backend_of_the_sweep_cant_run(examine):
    fp32, int8 = both()
    int8 = dataclasses.replace(int8, unsupported=lambda device: "no integers here")
    report = examine(fp32, int8)
    assert report.exit_code == 1
    assert report.obstacles == ("numpy-int8 can't run, as said above",)
    page = render(report)
    assert "  no   numpy-int8: no integers here" in page
    assert "can't run here as a whole" in page


def test_a_backend_outside_the_sweep_is_no_obstacle(examine):
    other = laboratory.backend("other-fp32", unsupported=lambda device: "not today")
    report = examine(*both(), other)
    assert report.exit_code == 0
    assert "other-fp32: not today" in render(report)


def test_backends_that_fail_for_one_reason_share_a_line(examine):
    page = render(examine(*both(unsupported=lambda device: "no card")))
    assert "  no   numpy-fp32, numpy-int8: no card" in page


def test_a_reason_that_names_the_backend_is_shared_too(examine):
    fp32, int8 = (
        dataclasses.replace(
            b, unsupported=lambda device, name=b.name: f"run tox -e {name}-old; see"
        )
        for b in both()
    )
    page = render(examine(fp32, int8))
    assert "no   numpy-fp32, numpy-int8: run tox -e numpy-fp32-old,numpy-int8-old; see" in page


def test_what_is_not_installed_is_named_with_the_extra_that_brings_it(examine):
    report = examine(*both(requires=("no_such_module", "no.such.part"), extra="lab"))
    reason = "needs no_such_module, no.such.part: pip install 'benchrack[lab]'"
    assert report.backends[0].reason == reason
    assert report.exit_code == 1


def test_an_old_card_is_told_its_stack_before_anything_is_installed(examine):
    """The extra would bring wheels without kernels for it."""
    needy = {"requires": ("no_such_module",), "extra": "lab"}
    model = dataclasses.replace(laboratory.MODEL, requires=("no_such_module", "nor_this"))
    data = dataclasses.replace(laboratory.DATASET, **needy)  # which the backends need too
    backends = both(**needy, remedy=lambda device: f"install the old stack for {device.name}")
    kinds = {"models": [model], "datasets": [data]}
    report = examine(*backends, **kinds, machine=nvml.three_p40())
    command = "install the old stack for Tesla P40"
    assert {check.reason for check in report.backends} == {f"needs no_such_module: {command}"}
    assert report.obstacles[2:] == (f"model matrix: needs no_such_module, nor_this: {command}",)
    assert "benchrack[lab]" not in render(report)


def test_what_will_fall_back_says_so_beside_the_backend(examine):
    def falls_back(device):
        return "computed in FP32" if device.kind == "cpu" else None

    fp32, int8 = both()
    int8 = dataclasses.replace(int8, falls_back=falls_back)
    report = examine(fp32, int8)
    assert [check.verdict for check in report.backends] == [None, "fell-back: computed in FP32"]
    rule, _, _ = report.backends[1].verdict.partition(":")
    assert rule in {known.name for known in rules.RULES}
    assert report.exit_code == 0  # it runs
    page = render(report)
    assert "numpy: a matrix product; its rows are not valid, fell-back: computed in FP32" in page
    assert examine(fp32, int8, machine=nvml.one_h200()).backends[1].verdict is None


def test_a_backend_that_raises_when_asked_is_reported(examine):
    def unsupported(device):
        raise RuntimeError("driver crashed")

    report = examine(*both(unsupported=unsupported))
    assert report.backends[0].reason == "asking it raised RuntimeError: driver crashed"


def test_what_nobody_provides_is_an_obstacle(examine):
    model = dataclasses.replace(laboratory.MODEL, requires=("no_such_module",), dataset="lost")
    report = examine(both()[0], models=[model])
    assert report.obstacles == (
        "no plugin provides the backend numpy-int8",
        "no plugin provides the data set lost",
        "model matrix: needs no_such_module: install it",
    )
    report = examine(*both(), models=[])
    assert report.obstacles == ("no plugin provides the model matrix",)


def test_a_model_of_one_data_set_keeps_it(examine):
    own = dataclasses.replace(laboratory.MODEL, dataset="lost", own_dataset=True)
    more = 'dataset = "squares"\n'
    report = examine(*both(), models=[own], more=more)
    assert report.obstacles == ("no plugin provides the data set lost",)
    own = dataclasses.replace(own, own_dataset=False)
    assert examine(*both(), models=[own], more=more).obstacles == ()


def test_meters_say_what_they_watch_or_why_they_cant(examine):
    class Open:
        method, period_s, devices = "counter", 0.5, ("package-0",)
        closed = False

        def close(self):
            Open.closed = True

    def refuse(devices, clock):
        raise UnsupportedError("may be read by root only")

    report = examine(
        *both(),
        meters=[
            Meter(name="good", summary="energy", open=lambda devices, clock: Open()),
            Meter(name="bad", summary="power", open=refuse),
        ],
    )
    page = render(report)
    assert "  yes  good  energy (counter, every 0.5 s): package-0" in page
    assert "  no   bad: may be read by root only" in page
    assert Open.closed
    assert report.exit_code == 0


def test_cards_that_are_alike_share_a_line_with_their_descriptor(examine):
    page = render(examine(*both(), machine=nvml.four_p4()), width=200)
    assert (
        "4 × Tesla P4 (card 0, 1, 2, 3), 7.4 GiB, compute capability 6.1; tesla-p4: "
        "FP32 5.5 TFLOPS, FP16 0.089 TFLOPS, INT8 22 TOPS, 75 W"
    ) in page
    assert "NVIDIA driver 570.86.15, serves CUDA up to 12.8" in page


def test_an_unknown_card_is_called_unknown(examine):
    page = render(examine(*both(), machine=nvml.unknown_card()))
    assert "NVIDIA X1000 Prototype" in page
    assert "unknown (PCI id fff0)" in page


def too_old(device):
    return "too old" if device.name == "Tesla P4" else None


def test_of_several_kinds_of_cards_the_one_that_refuses_is_named(examine):
    machine = nvml.Machine(cards=[nvml.p4(0x10), nvml.p4(0x11), nvml.h200(0x12)])
    counted = {"device_counts": (3,)}
    report = examine(*both(unsupported=too_old), machine=machine, options=counted)
    assert report.backends[0].reason == "cuda:0 Tesla P4: too old"
    assert report.exit_code == 1


def test_a_card_that_the_sweep_does_not_use_is_no_obstacle(examine):
    """An H200 beside a P4: cases on one device use the first."""
    machine = nvml.Machine(cards=[nvml.h200(0x10), nvml.p4(0x11)])
    backends = both(unsupported=too_old)
    report = examine(*backends, machine=machine)
    assert (report.exit_code, [d.name for d in report.devices]) == (0, ["NVIDIA H200"])
    page = render(report)
    assert "backends, on cuda:0\n" in page
    assert "the sweep leaves cuda:1 Tesla P4 alone" in page
    for options in ({"device_counts": (1, 2)}, {"device": "cuda:1"}):
        report = examine(*backends, machine=machine, options=options)
        assert report.exit_code == 1
        assert report.obstacles == tuple(f"{b.name} can't run, as said above" for b in backends)
    report = examine(*backends, machine=machine, options={"device": "cpu"})
    assert (report.exit_code, report.devices[0].kind) == (0, "cpu")


def test_device_counts_beyond_the_machine_are_an_obstacle(examine):
    report = examine(*both(), machine=nvml.one_h200(), more="device_counts = [1, 2, 4]\n")
    assert report.exit_code == 1
    (obstacle,) = report.obstacles
    assert obstacle.startswith("the cases on 2 or 4 devices can't run: 2 devices were asked for")
    assert "cuda:0 NVIDIA H200" in obstacle
    page = render(report, width=300)
    assert "the sweep lab, 12 cases, can't run here as a whole:\n  the cases on 2 or 4" in page
    machine = nvml.four_v100_sxm2()
    assert examine(*both(), machine=machine, more="device_counts = [1, 2, 4]\n").exit_code == 0


def test_device_counts_beyond_the_server_are_an_obstacle(examine, tmp_path):
    folder = tmp_path / "sys/class/dmi/id"
    folder.mkdir(parents=True)
    (folder / "product_name").write_text("PowerEdge R740\n")
    machine = nvml.Machine(cards=[nvml.p40(bus) for bus in range(4)])
    options = {"device_counts": (3, 4)}
    (obstacle,) = examine(*both(), machine=machine, options=options).obstacles
    assert obstacle.startswith("the cases on 4 devices can't run")
    assert "takes at most 3 NVIDIA Tesla P40" in obstacle


def test_a_cpu_has_as_many_devices_as_usable_cores(examine, monkeypatch):
    monkeypatch.setattr(placement, "usable_cores", lambda root: 2)
    assert examine(*both(), options={"device_counts": (1, 2)}).exit_code == 0
    report = examine(*both(), options={"device_counts": (1, 2, 3)})
    (obstacle,) = report.obstacles
    assert "the cases on 3 devices can't run" in obstacle
    assert "the CPU has 2 usable cores" in obstacle


def test_a_device_that_is_not_there_is_an_error(examine):
    with pytest.raises(DeviceError, match="no card '3'"):
        examine(*both(), machine=nvml.one_h200(), options={"device": "cuda:3"})


def test_what_happens_on_cards_that_are_not_used_spoils_nothing(examine, monkeypatch):
    hot = nvml.p40(0x3B, processes=((77, 1),), throttle=0x40)
    machine = nvml.Machine(cards=[hot, nvml.p40(0xAF)])
    first, second = examine(*both(), machine=machine).spoilers
    assert "other processes compute on card 0 (ids 77)" in first
    assert "card 0 is throttled now (hw_thermal_slowdown)" in second
    assert examine(*both(), machine=machine, options={"device": "cuda:1"}).spoilers == ()
    assert examine(*both(), machine=machine, options={"device": "cpu"}).spoilers == ()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    report = examine(*both(), machine=machine)
    assert report.spoilers == ()
    assert str(report.devices[0]) == "cuda:0"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    assert len(examine(*both(), machine=machine, options={"device_counts": (2,)}).spoilers) == 2


def test_problems_of_driver_and_plugins_are_shown(examine):
    broken = Problem(provider=None, message="lab 1.0: can't be imported")
    page = render(examine(*both(), machine=nvml.driver_mismatch(), problems=(broken,)))
    assert "in the way\n  the NVIDIA library and the loaded kernel module" in page
    assert "plugins with problems\n  lab 1.0: can't be imported" in page


def test_what_would_spoil_a_number_is_shown_and_changes_no_exit_code(examine):
    machine = nvml.Machine(cards=[nvml.h200(processes=((77, 1),))])
    report = examine(*both(), machine=machine)
    assert report.exit_code == 0
    page = render(report)
    assert "a number taken now would not be valid:\n  other processes compute on card 0" in page


def test_what_no_verdict_sees_is_a_remark(examine):
    report = examine(*both(), machine=nvml.Machine(cards=[nvml.h200(mig=(1, 1)), nvml.p4()]))
    assert report.spoilers == ()
    page = render(report, width=200)
    assert "would not be valid" not in page
    remarks = page.partition("good to know, and no reason against a number:\n")[2]
    assert "  clock governor and turbo of the CPU are unknown" in remarks
    assert "  card 0 is split (MIG)" in remarks
    assert "split into parts (MIG): no peak to compare with" in page
    assert "FP16 is for storing" not in page  # the P4 is not used
    page = render(examine(*both(), machine=nvml.four_p4()), width=200)
    assert page.count("NVIDIA Tesla P4: FP16 is for storing, not for speed") == 1


def test_lines_fit_the_width_but_commands_stay_whole(examine):
    command = "pip install torch==2.7.1 --index=" + "x" * 90
    page = render(examine(*both(unsupported=lambda device: f"too old: {command}")), width=72)
    assert max(len(line) for line in page.splitlines() if "xxx" not in line) <= 72
    assert "x" * 90 in page


def test_a_sweep_that_is_not_there_is_an_error(tmp_path, fake_nvml):
    fake_nvml(nvml.no_driver())
    with pytest.raises(SweepError):
        run_doctor(laboratory.registry(), asked=str(tmp_path / "absent.toml"))


def test_without_a_card_no_framework_is_imported_and_the_page_is_one_screen():
    """The built-in plugins, on this machine as if it had no card."""
    script = (
        "import sys\n"
        "from benchrack.machine import devices\n"
        "devices.visible_cards = lambda: ()\n"
        "from benchrack.command.doctor import render, run_doctor\n"
        "from benchrack.registry.registry import load_registry\n"
        "page = render(run_doctor(load_registry(), wait=lambda seconds: None))\n"
        "found = [m for m in ('torch', 'onnxruntime', 'numpy') if m in sys.modules]\n"
        "print(found, page.count('\\n'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    frameworks, _, lines = done.stdout.strip().rpartition(" ")
    assert frameworks == "[]"
    assert int(lines) <= 50
