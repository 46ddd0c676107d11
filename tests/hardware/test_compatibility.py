"""Which software serves which card, and the command that installs it."""

from __future__ import annotations

import configparser
import re
import tomllib
from pathlib import Path

import pytest

from benchrack.hardware import compatibility, descriptors
from benchrack.hardware.compatibility import (
    InstalledStack,
    has_kernels,
    remedy,
    tensorrt_for,
    unsupported_reason,
)
from benchrack.vocabulary.descriptors import Accelerator

# What torch and onnxruntime-gpu of the day report: PyPI's current builds, and the pinned ones.
CURRENT = InstalledStack(
    torch="2.14.1+cu130",
    torch_cuda="13.0",
    torch_kernels=("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"),
    onnxruntime="1.31.1",
)
CUDA12 = InstalledStack(
    torch="2.7.1",
    torch_cuda="12.6",
    torch_kernels=("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"),
    onnxruntime="1.22.0",
)
CUDA11 = InstalledStack(
    torch="2.7.1",
    torch_cuda="12.6",
    torch_kernels=CUDA12.torch_kernels,
    onnxruntime="1.17.1",
    tensorrt="8.6.1",
)
P40, V100, T4, H200 = "6.1", "7.0", "7.5", "9.0"
CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("capability", "kernels", "runs"),
    [
        ("6.1", "sm_60", True),  # within a major version, later minor versions run earlier code
        ("6.0", "sm_61", False),
        ("7.0", "sm_60", False),  # machine code never crosses major versions
        ("7.5", "sm_70", True),
        ("8.9", "sm_80 sm_86", True),
        ("9.0", "sm_90", True),
        ("9.0", "sm_90a", True),
        ("9.1", "sm_90a", False),  # `a`: this capability alone
        ("10.0", "sm_90", False),
        ("10.0", "sm_100", True),
        ("12.0", "sm_100", False),
        ("12.0", "compute_90", True),  # PTX is compiled by the driver for later cards
        ("6.1", "compute_60", True),
        ("6.1", "compute_70", False),
        ("10.0", "compute_90a", False),
        ("6.1", "", False),
        ("6.1", "native all", False),
    ],
)
def test_which_code_runs_on_which_card(capability, kernels, runs):
    assert has_kernels(capability, kernels.split()) is runs


def test_current_pytorch_has_no_kernels_for_the_studies_cards():
    for capability in (P40, V100):
        reason = unsupported_reason(capability, CURRENT)
        assert reason is not None
        assert f"has no kernels for compute capability {capability} (only sm_75" in reason
        assert "The stack cuda12 does: pip install" in reason
        assert "tox -e pytorch-fp32-cuda12" in reason
    assert unsupported_reason(T4, CURRENT) is None
    assert unsupported_reason(H200, CURRENT) is None


def test_the_pinned_stack_serves_the_studies_cards():
    for capability in (P40, V100, T4, "8.0", H200):
        assert unsupported_reason(capability, CUDA12) is None
        assert unsupported_reason(capability, CUDA12, framework="onnxruntime") is None


def test_int8_on_pascal_needs_tensorrt_8():
    int8 = {"framework": "onnxruntime", "precision": "int8"}
    for installed in (CURRENT, CUDA12):
        reason = unsupported_reason(P40, installed, **int8)
        assert reason is not None
        assert "The stack cuda11 does" in reason
        assert "with TensorRT 8.6" in reason
        assert "tox -e onnxruntime-int8-cuda11" in reason
    assert "TensorRT 10, which this ONNX Runtime needs, does not know" in (
        unsupported_reason(P40, CUDA12, **int8) or ""
    )
    assert unsupported_reason(P40, CUDA11, **int8) is None


def test_int8_on_volta_ends_with_tensorrt_10_4():
    int8 = {"framework": "onnxruntime", "precision": "int8"}
    with_10 = {
        v: InstalledStack(onnxruntime="1.22.0", tensorrt=v) for v in ("10.4.0", "10.4.0.26", "10.5")
    }
    assert unsupported_reason(V100, with_10["10.4.0"], **int8) is None
    assert unsupported_reason(V100, with_10["10.4.0.26"], **int8) is None
    reason = unsupported_reason(V100, with_10["10.5"], **int8)
    assert reason is not None
    assert reason.startswith("TensorRT 10.5 does not know compute capability 7.0; the last")
    assert "pip install tensorrt-cu12==10.4.0" in reason
    assert unsupported_reason(T4, with_10["10.5"], **int8) is None


@pytest.mark.parametrize(
    ("capability", "precision", "missing"),
    [
        ("6.0", "int8", "no integer dot products (DP4A), which INT8 needs; they came with 6.1"),
        ("6.1", "tf32", "no tensor cores for TF32"),
        ("7.5", "bf16", "no BF16 arithmetic"),
    ],
)
def test_what_a_card_can_not_do_no_software_is_proposed_for(capability, precision, missing):
    framework = "onnxruntime" if precision == "int8" else "pytorch"
    for installed in (CURRENT, CUDA12):
        reason = unsupported_reason(capability, installed, framework=framework, precision=precision)
        assert reason is not None
        assert missing in reason
        assert "stack" not in reason
    assert unsupported_reason("8.0", CUDA12, framework=framework, precision=precision) is None


@pytest.mark.parametrize(
    ("version", "capability", "served"),
    [
        ("1.17.1", "6.1", True),
        ("1.22.0", "6.1", True),
        ("1.24.2", "6.1", True),  # between two that were read and agree
        ("1.26.0", "6.1", True),
        ("1.26.5", "6.1", True),  # between two that differ: the run will tell
        ("1.27.0", "6.1", False),
        ("1.29.0", "7.0", False),
        ("1.31.1", "6.1", False),
        ("1.99.0", "6.1", False),  # CUDA never takes an old card back
        ("1.99.0", "10.0", True),  # but may know newer ones
        ("1.31.1", "10.0", False),
        ("1.10.0", "6.1", True),  # older than all that were read
        ("1.31.1", "7.5", True),
    ],
)
def test_versions_of_onnxruntime_gpu(version, capability, served):
    installed = InstalledStack(onnxruntime=version)
    reason = unsupported_reason(capability, installed, framework="onnxruntime")
    assert (reason is None) is served


def test_a_driver_older_than_the_builds_cuda_is_named_with_the_one_to_install():
    reason = unsupported_reason(H200, CURRENT, driver_cuda="12.8")
    assert reason is not None
    assert "PyTorch 2.14.1+cu130 is built with CUDA 13.0" in reason
    assert "serves CUDA 12.8 at most: install driver 580 or later" in reason
    assert "The stack cuda12 does" in reason
    assert unsupported_reason(H200, CURRENT, driver_cuda="13.0") is None
    assert unsupported_reason(H200, CUDA12, driver_cuda="12.2") is None  # minor versions do


def test_missing_kernels_come_before_a_driver_that_could_be_updated():
    reason = unsupported_reason(P40, CURRENT, driver_cuda="12.8")
    assert reason is not None
    assert "has no kernels" in reason
    assert "driver" not in reason.partition(". The stack")[0]


def test_a_driver_too_old_for_every_stack_has_no_remedy_but_itself():
    reason = unsupported_reason(P40, CUDA12, driver_cuda="11.4")
    assert reason is not None
    assert "install driver 525 or later" in reason
    assert "No stack that Benchrack knows serves this card and driver" in reason


def test_a_build_without_cuda_is_named():
    reason = unsupported_reason(H200, InstalledStack(torch="2.14.1+cpu"))
    assert reason is not None
    assert "PyTorch 2.14.1+cpu is a build without CUDA" in reason


def test_what_is_not_installed_or_not_known_is_no_reason():
    assert unsupported_reason(P40, InstalledStack()) is None
    assert unsupported_reason(P40, InstalledStack(), framework="onnxruntime") is None
    unknown = InstalledStack(torch="2.9.0", torch_cuda="12.8")
    assert unsupported_reason(P40, unknown) is None


def test_no_pinned_stack_is_proposed_for_a_card_newer_than_it():
    reason = unsupported_reason("10.0", CURRENT, framework="onnxruntime")
    assert reason is not None
    assert "No stack that Benchrack knows" in reason


@pytest.mark.parametrize(
    ("capability", "framework", "precision", "stack"),
    [
        (P40, "pytorch", "fp32", "cuda12"),
        (P40, "onnxruntime", "fp32", "cuda12"),
        (P40, "onnxruntime", "int8", "cuda11"),
        (V100, "pytorch", "fp16", "cuda12"),
        (V100, "onnxruntime", "int8", "cuda12"),
    ],
)
def test_with_nothing_installed_an_old_card_gets_the_stack_that_serves_it(
    capability, framework, precision, stack
):
    command = remedy(capability, framework=framework, precision=precision, driver_cuda="12.8")
    assert command is not None
    assert command.startswith(f"pip install -c constraints/{stack}.txt")
    assert f"(the stack {stack}: " in command


def test_cards_that_the_current_wheels_serve_need_no_stack():
    for capability in (T4, "8.6", H200):
        for framework, precision in (("pytorch", "fp16"), ("onnxruntime", "int8")):
            chosen = {"framework": framework, "precision": precision}
            assert remedy(capability, driver_cuda="13.0", **chosen) is None
            assert remedy(capability, **chosen) is None
            older = remedy(capability, driver_cuda="12.8", **chosen)
            assert older is not None
            assert "constraints/cuda12.txt" in older
            assert "install driver 580 or later" in older


def test_what_nothing_serves_is_said_instead_of_a_command():
    reason = remedy(P40, precision="tf32")
    assert reason is not None
    assert "no tensor cores for TF32" in reason
    assert "pip" not in reason
    reason = remedy("10.0", framework="onnxruntime")
    assert reason is not None
    assert "No stack that Benchrack knows" in reason


def test_only_environments_that_tox_has_are_named():
    config = configparser.ConfigParser(interpolation=None)
    config.read(CHECKOUT / "tox.ini", encoding="utf-8")
    (section,) = (name for name in config if "cuda12" in name)
    backends, *factors = re.findall(r"{([^}]*)}", section)
    assert factors == [",-cuda12,-cuda11"]
    for stack in compatibility._facts()["stack"]:
        assert stack["tox"] == backends.split(",")
    for framework in ("pytorch", "onnxruntime"):
        for precision in ("fp32", "fp16", "int8"):
            reason = unsupported_reason(P40, CURRENT, framework=framework, precision=precision)
            assert reason is not None
            named = f"{framework}-{precision}" in backends.split(",")
            assert (f"tox -e {framework}-{precision}-cuda1" in reason) is named
            assert "pip install -c constraints/cuda1" in reason


@pytest.mark.parametrize(
    ("onnxruntime", "tensorrt"),
    [
        ("1.31.1", "TensorRT 10.13 (pip install 'benchrack[tensorrt]')"),
        ("1.99.0", "TensorRT 10.13 (pip install 'benchrack[tensorrt]')"),
        ("1.22.0", "TensorRT 10.4 (pip install tensorrt-cu12==10.4.0)"),
        (
            "1.17.1",
            "TensorRT 8.6 (from NVIDIA, as are CUDA 11 and cuDNN 8, onto the loader's path)",
        ),
        ("1.18.1", "TensorRT 10 for CUDA 11 (from NVIDIA, onto the loader's path)"),
        ("1.10.0", "the TensorRT that onnxruntime-gpu 1.10.0 links (from NVIDIA)"),
    ],
)
def test_the_tensorrt_that_fits_an_onnxruntime(onnxruntime, tensorrt):
    assert tensorrt_for(onnxruntime) == tensorrt


def test_the_extra_is_the_tensorrt_of_the_current_wheels():
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    (_, pinned) = extras["optional-dependencies"]["tensorrt"]
    current = compatibility._facts()["current"]
    assert f"-cu{current['torch_cuda'].partition('.')[0]}-" in pinned
    assert f">={current['tensorrt']}," in pinned


def test_outside_a_checkout_the_command_has_the_pins(tmp_path):
    assert compatibility.install_command("cuda11", tmp_path) == (
        "pip install 'benchrack[all]' torch==2.7.1 torchvision==0.22.1 onnxruntime-gpu==1.17.1 "
        "onnx==1.18.0 'numpy<2'"
    )
    with pytest.raises(KeyError):
        compatibility.install_command("cuda10", tmp_path)


@pytest.mark.parametrize("stack", ["cuda12", "cuda11"])
def test_in_a_checkout_the_command_has_the_constraints_file(tmp_path, stack):
    (tmp_path / "constraints").mkdir()
    (tmp_path / "constraints" / f"{stack}.txt").touch()
    command = compatibility.install_command(stack, tmp_path)
    assert command == f"pip install -c constraints/{stack}.txt -e '.[all]'"


@pytest.mark.parametrize("stack", ["cuda12", "cuda11"])
def test_pins_and_constraints_file_agree(tmp_path, stack):
    lines = (CHECKOUT / "constraints" / f"{stack}.txt").read_text().splitlines()
    pinned = {line for line in lines if line and not line.startswith("#")}
    command = compatibility.install_command(stack, tmp_path)
    assert {word.strip("'") for word in command.split()[3:]} == pinned


@pytest.mark.parametrize("stack", ["cuda12", "cuda11"])
def test_old_cards_are_told_both_ways_in_the_documentation(stack):
    page = (CHECKOUT / "docs" / "old-cards.md").read_text(encoding="utf-8")
    assert f"pip install -c constraints/{stack}.txt" in page
    assert f"-{stack}" in page


def test_every_fact_has_a_source_and_a_confidence():
    facts = compatibility._facts()
    used = {facts["current"]["source"]}
    for kind in ("onnxruntime", "tensorrt", "precision", "driver", "stack"):
        for fact in facts[kind]:
            assert fact["confidence"] in "ABCD"
            used.add(fact["source"])
    assert used == set(facts["sources"])


def test_every_built_in_card_gets_an_answer():
    for card in descriptors.built_in():
        if not isinstance(card, Accelerator):
            continue
        assert card.compute_capability is not None
        capability = card.compute_capability.value
        old = tuple(map(int, capability.split("."))) < (7, 5)
        reason = unsupported_reason(capability, CURRENT)
        assert (reason is not None) is old
        if reason:
            assert re.search(r"pip install .* or tox -e pytorch-fp32-cuda12", reason)
