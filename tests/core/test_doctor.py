"""Doctor: one screen about made-up machines, and its exit code."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from fakes import laboratory, nvml

from benchrack.doctor import render, run_doctor
from benchrack.errors import SweepError, UnsupportedError
from benchrack.hardware import descriptors
from benchrack.machines import Accelerator
from benchrack.meters import Meter
from benchrack.plugin_loading import Problem

SWEEP = """\
[throughput]
models = ["matrix"]
backends = ["numpy-fp32", "numpy-int8"]
batch_sizes = [1, 8]
"""
CARDS = {d.name: d for d in descriptors.built_in() if isinstance(d, Accelerator)}


@pytest.fixture
def examine(tmp_path, fake_nvml):
    """Run doctor on a made-up machine, by default one without cards, with made-up plugins."""
    sweep = tmp_path / "lab.toml"
    sweep.write_text(SWEEP)

    def examine(*backends, machine=None, meters=(), problems=(), **kinds):
        fake_nvml(machine or nvml.no_driver())
        found = laboratory.registry(*backends, **kinds)
        provided = {**found.provided, "accelerator": CARDS, "meter": {m.name: m for m in meters}}
        found = dataclasses.replace(found, provided=provided, problems=problems)
        return run_doctor(found, asked=str(sweep), root=tmp_path, wait=lambda seconds: None)

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
    reason = "not installed: no_such_module, no.such.part: pip install 'benchrack[lab]'"
    assert report.backends[0].reason == reason
    assert report.exit_code == 1


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
        "model matrix: not installed: no_such_module",
        "no plugin provides the data set lost",
    )
    report = examine(*both(), models=[])
    assert report.obstacles == ("no plugin provides the model matrix",)


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
    assert "backends, on cuda:0, cuda:1, cuda:2, cuda:3" in page
    assert "NVIDIA driver 570.86.15, serves CUDA up to 12.8" in page


def test_an_unknown_card_is_called_unknown(examine):
    page = render(examine(*both(), machine=nvml.unknown_card()))
    assert "NVIDIA X1000 Prototype" in page
    assert "unknown (PCI id fff0)" in page


def test_of_several_kinds_of_cards_the_one_that_refuses_is_named(examine):
    machine = nvml.Machine(cards=[nvml.p4(0x10), nvml.p4(0x11), nvml.h200(0x12)])

    def unsupported(device):
        return "too old" if device.name == "Tesla P4" else None

    (check, _) = examine(*both(unsupported=unsupported), machine=machine).backends
    assert check.reason == "cuda:0 Tesla P4: too old"


def test_problems_of_driver_and_plugins_are_shown(examine):
    broken = Problem(provider=None, message="lab 1.0: can't be imported")
    page = render(examine(*both(), machine=nvml.driver_mismatch(), problems=(broken,)))
    assert "in the way\n  the NVIDIA library and the loaded kernel module" in page
    assert "plugins with problems\n  lab 1.0: can't be imported" in page


def test_what_would_spoil_a_number_is_shown_and_changes_no_exit_code(examine):
    report = examine(*both(), machine=nvml.Machine(cards=[nvml.h200(mig=(1, 1))]))
    assert report.exit_code == 0
    page = render(report)
    assert "a number taken now would not be valid:\n" in page
    assert "card 0 is split (MIG)" in page
    assert "clock governor and turbo of the CPU are unknown" in page


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
        "from benchrack import devices\n"
        "devices.visible_cards = lambda: ()\n"
        "from benchrack.doctor import render, run_doctor\n"
        "from benchrack.registry import load_registry\n"
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
