"""The installed frameworks, and what they have for a card that this machine does not hold."""

from __future__ import annotations

import subprocess
import sys

import pytest
from fakes import nvml

from benchrack.hardware import installed
from benchrack.hardware.compatibility import InstalledStack
from benchrack.vocabulary.devices import Device

CURRENT = InstalledStack(
    torch="2.14.1+cu130",
    torch_cuda="13.0",
    torch_kernels=("sm_75", "sm_80", "sm_90"),
    onnxruntime="1.31.1",
)


@pytest.fixture
def current(monkeypatch):
    """As if PyPI's builds of November 2026 were installed; records what was asked for."""
    asked = []

    def installed_stack(*, with_torch=True):
        asked.append(with_torch)
        return CURRENT

    monkeypatch.setattr(installed, "installed_stack", installed_stack)
    return asked


def card(machine, index=0):
    return Device(kind="cuda", index=index, uuid=machine.cards[index].uuid)


def test_a_p40_has_no_code_in_the_current_builds(fake_nvml, current):
    machine = nvml.three_p40()
    fake_nvml(machine)
    reason = installed.unsupported_on(card(machine, 2), "pytorch", "fp32")
    assert reason is not None
    assert "no kernels for compute capability 6.1" in reason
    reason = installed.unsupported_on(card(machine), "onnxruntime", "int8")
    assert reason is not None
    assert "The stack cuda11 does" in reason
    assert current == [True, False]  # ONNX Runtime's answer needs no import of torch


def test_an_h200_has_but_its_driver_is_too_old(fake_nvml, current):
    machine = nvml.one_h200()
    fake_nvml(machine)
    reason = installed.unsupported_on(card(machine), "pytorch", "fp32")
    assert reason is not None
    assert "serves CUDA 12.9 at most: install driver 580" in reason
    machine.cuda = 13000
    assert installed.unsupported_on(card(machine), "pytorch", "fp32") is None


def test_what_to_install_is_known_without_a_framework(fake_nvml, monkeypatch):
    monkeypatch.setattr(installed, "installed_stack", None)  # is not asked
    machine = nvml.three_p40()
    fake_nvml(machine)
    command = installed.remedy_on(card(machine), "onnxruntime", "int8")
    assert command is not None
    assert command.startswith("pip install -c constraints/cuda11.txt")
    machine = nvml.one_h200()
    machine.cuda = 13000
    fake_nvml(machine)
    assert installed.remedy_on(card(machine), "onnxruntime", "int8") is None
    assert installed.remedy_on(Device(kind="cpu"), "pytorch", "fp32") is None
    fake_nvml(nvml.no_permission())
    assert installed.remedy_on(Device(kind="cuda"), "pytorch", "fp32") is None


def test_tensorrts_libraries_alone_are_tensorrt(monkeypatch):
    """As the extra brings them."""

    def version(name):
        if name == "tensorrt-cu13-libs":
            return "10.13.3.9"
        raise installed.PackageNotFoundError(name)

    monkeypatch.setattr(installed, "version", version)
    assert installed.installed_stack(with_torch=False).tensorrt == "10.13.3.9"


def test_a_device_without_uuid_is_counted(fake_nvml, current):
    fake_nvml(nvml.four_p4())
    assert installed.unsupported_on(Device(kind="cuda", index=3), "pytorch", "fp16") is not None


def test_a_cpu_is_not_asked(current):
    assert installed.unsupported_on(Device(kind="cpu"), "pytorch", "fp32") is None
    assert current == []


@pytest.mark.parametrize(
    "machine", [nvml.no_driver(), nvml.driver_mismatch(), nvml.no_permission()]
)
def test_where_nvml_does_not_answer_the_framework_will(fake_nvml, current, machine):
    fake_nvml(machine)
    device = Device(kind="cuda", index=0)
    assert installed.unsupported_on(device, "pytorch", "fp32") is None


def test_the_backends_ask_before_they_use_the_card(fake_nvml, current):
    """The reason reaches whoever asks the built-in backends, doctor and the suites."""
    pytest.importorskip("torch")
    from benchrack.plugins.backends import onnxruntime, pytorch

    machine = nvml.three_p40()
    fake_nvml(machine)
    for module, backend in ((pytorch, "pytorch-fp32"), (onnxruntime, "onnxruntime-int8")):
        chosen = next(b for b in module.benchrack_backends() if b.name == backend)
        reason = chosen.unsupported(card(machine))
        assert reason is not None
        assert f"tox -e {backend}-cuda1" in reason


def test_versions_are_those_of_the_installed_distributions():
    assert installed.first_version("no-such-distribution", "pluggy") is not None
    assert installed.first_version("no-such-distribution") is None
    assert installed.first_version() is None


def test_without_torch_nothing_is_imported():
    script = (
        "import sys; from benchrack.hardware.installed import installed_stack; "
        "installed_stack(with_torch=False); "
        "print([m for m in ('torch', 'onnxruntime', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_torch_tells_its_kernels_without_a_card():
    torch = pytest.importorskip("torch")
    if torch.version.cuda is None:
        pytest.skip("a build of torch without CUDA")
    stack = installed.installed_stack()
    assert stack.torch == torch.__version__
    assert stack.torch_cuda == torch.version.cuda
    assert any(kernel.startswith("sm_") for kernel in stack.torch_kernels)
