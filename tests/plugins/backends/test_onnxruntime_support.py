"""Whether ONNX Runtime can run on a card is known before a session falls back to the CPU."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import nvml

onnxruntime = pytest.importorskip("onnxruntime")

from benchrack.hardware import installed  # noqa: E402
from benchrack.plugins.backends import (  # noqa: E402
    onnxruntime_libraries as libraries,
    onnxruntime_support as support,
)
from benchrack.vocabulary.devices import Device  # noqa: E402

CPU = Device(kind="cpu")
ALL = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]


class Metadata:
    """Of a distribution: the extras that it names."""

    def __init__(self, *extras):
        self.extras = extras

    def get_all(self, name):
        assert name == "Provides-Extra"
        return list(self.extras) or None


@pytest.fixture
def stack(monkeypatch, fake_nvml):
    """`stack(card, version, lost=…)`: a machine with that card, and an ONNX Runtime that lacks some
    libraries; returns the card as a device."""

    def stack(card, version="1.31.1", *, providers=ALL, distributions=None, lost=(), extras=()):
        fake_nvml(nvml.Machine(cards=[card], cuda=13000))
        found = {"onnxruntime-gpu": version} if distributions is None else distributions
        missing = {"cuda": (), "tensorrt": (), **dict(lost)}

        def version_of(name):
            try:
                return found[name]
            except KeyError:
                raise support.PackageNotFoundError(name) from None

        monkeypatch.setattr(support, "version", version_of)
        monkeypatch.setattr(installed, "version", version_of)
        monkeypatch.setattr(support, "metadata", lambda name: Metadata(*extras))
        monkeypatch.setattr(onnxruntime, "__version__", version)
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: providers)
        monkeypatch.setattr(libraries, "missing", lambda provider: tuple(missing[provider]))
        return Device(kind="cuda", name=card.name, uuid=card.uuid)

    return stack


def v100():
    return nvml.v100(0x1A, [])


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_where_all_is_there_nothing_speaks_against_it(stack, precision):
    assert support.unsupported(stack(nvml.h200()), precision) is None
    assert support.unsupported(stack(v100(), "1.22.0"), precision) is None
    p4 = stack(nvml.p4(), "1.17.1", distributions={"onnxruntime-gpu": "1.17.1", "tensorrt": "8.6"})
    assert support.unsupported(p4, precision) is None


def test_two_distributions_over_each_other_are_named(stack):
    both = {"onnxruntime": "1.32.0", "onnxruntime-gpu": "1.31.1"}
    stack(nvml.h200(), distributions=both)
    reason = support.unsupported(CPU, "fp32")
    assert "onnxruntime 1.32.0 and onnxruntime-gpu 1.31.1 are installed over each other" in reason
    assert reason.endswith("pip uninstall onnxruntime onnxruntime-gpu, then install one of them")
    reason = support.unsupported(stack(nvml.p40(), distributions=both), "int8")
    assert "then pip install -c constraints/cuda11.txt" in reason


def test_a_build_without_cuda_is_replaced_by_one_that_serves_the_card(stack):
    wheel = {"distributions": {"onnxruntime": "1.31.1"}, "providers": ["CPUExecutionProvider"]}
    reason = support.unsupported(stack(nvml.h200(), **wheel), "fp32")
    assert "is a build without CUDA (providers: CPUExecutionProvider)" in reason
    assert reason.endswith("pip uninstall onnxruntime, then pip install onnxruntime-gpu")
    reason = support.unsupported(stack(nvml.p40(), **wheel), "fp32")
    assert "pip uninstall onnxruntime, then pip install -c constraints/cuda12.txt" in reason
    assert "pip install onnxruntime-gpu" not in reason


@pytest.mark.parametrize(
    ("card", "version", "lost", "remedy"),
    [
        (nvml.h200(), "1.31.1", "libnvinfer.so.10", "pip install 'benchrack[tensorrt]'"),
        (v100(), "1.22.0", "libnvinfer.so.10", "pip install tensorrt-cu12==10.4.0"),
        (nvml.p4(), "1.17.1", "libnvinfer.so.8", "TensorRT 8.6 (from NVIDIA, as are CUDA 11"),
    ],
    ids=["current wheels", "cuda12", "cuda11"],
)
def test_int8_needs_the_tensorrt_of_the_installed_stack(stack, card, version, lost, remedy):
    """The CUDA provider has no integer convolutions: a label alone would make FP32 INT8. The extra
    of the current wheels would harm an older stack."""
    device = stack(card, version, lost={"tensorrt": [lost]})
    assert support.unsupported(device, "fp32") is None
    reason = support.unsupported(device, "int8")
    assert "needs TensorRT" in reason
    assert f"ONNX Runtime {version} can't load {lost}: install" in reason
    assert remedy in reason
    assert ("benchrack[tensorrt]" in reason) is (version == "1.31.1")


def test_a_build_without_tensorrt_is_named(stack):
    reason = support.unsupported(stack(nvml.h200(), providers=ALL[1:]), "int8")
    assert "ONNX Runtime 1.31.1 is a build without it" in reason


def test_a_cuda_provider_that_cant_be_loaded_would_compute_on_the_cpu(stack):
    lost = {"cuda": ["libcublas.so.13", "libcudnn.so.9"]}
    reason = support.unsupported(stack(nvml.h200(), lost=lost, extras=("cuda", "cudnn")), "fp32")
    assert "would compute on the CPU: its CUDA provider can't load libcublas.so.13, lib" in reason
    assert reason.endswith("pip install 'onnxruntime-gpu[cuda,cudnn]==1.31.1'")


def test_cuda_11_comes_from_nvidia_or_is_not_needed(stack):
    """The stack cuda11 without CUDA 11: for FP32 cuda12 serves a P4, and brings its own CUDA."""
    device = stack(nvml.p4(), "1.17.1", lost={"cuda": ["libcublas.so.11"]})
    reason = support.unsupported(device, "fp32")
    assert "Install CUDA and cuDNN of these versions from NVIDIA" in reason
    assert ", or: pip install -c constraints/cuda12.txt" in reason
    reason = support.unsupported(device, "int8")
    assert reason.endswith("from NVIDIA, onto the loader's path")


def test_the_drivers_own_library_is_no_matter_of_packages(stack):
    device = stack(nvml.h200(), lost={"cuda": ["libcuda.so.1"]})
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in support.unsupported(device, "fp32")


def test_fp16_on_the_cpu_falls_back_and_says_so_beforehand(monkeypatch):
    monkeypatch.setattr(support.processors, "instruction_sets", lambda: frozenset({"avx512_fp16"}))
    assert support.falls_back(CPU, "fp16") == support.CPU_HALF
    assert "computes in FP32 between casts" in support.runs_as(CPU, "fp16")
    monkeypatch.setattr(
        support.processors, "instruction_sets", lambda: frozenset({"asimd", "asimdhp"})
    )
    assert support.falls_back(CPU, "fp16") is None  # some kernels: the session will tell
    assert "computes in FP16 where it has kernels" in support.runs_as(CPU, "fp16")
    assert support.falls_back(CPU, "int8") is None
    assert support.falls_back(Device(kind="cuda"), "fp16") is None


# the libraries --------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is not installed")
@pytest.mark.parametrize("provider", ["cuda", "tensorrt", "shared"])
def test_what_a_library_links_is_what_readelf_says(provider):
    folder = Path(onnxruntime.__file__).parent / "capi"
    library = folder / f"libonnxruntime_providers_{provider}.so"
    if not library.exists():
        pytest.skip("this onnxruntime is not the GPU wheel for Linux")
    done = subprocess.run(
        ["readelf", "--dynamic", library], capture_output=True, text=True, check=True
    )
    linked = [line for line in done.stdout.splitlines() if "(NEEDED)" in line]
    assert libraries.needed(library) == tuple(line.split("[")[1].rstrip("]") for line in linked)


@pytest.mark.parametrize(
    "content", [b"", b"MZ\x90\x00", b"\x7fELF\x01\x01", b"\x7fELF\x02\x01\x01"]
)
def test_what_is_no_library_is_said(tmp_path, content):
    (tmp_path / "lib.so").write_bytes(content)
    with pytest.raises(ValueError, match=r"lib\.so is"):
        libraries.needed(tmp_path / "lib.so")


def elf(*sonames):
    """A library of two segments, all of it and its dynamic entries, that links these."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in sonames)
    start = 64 + 2 * 56
    entries = [(1, strings.index(name.encode())) for name in sonames] + [(5, start), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    table = [
        (1, 5, 0, 0, 0, start + len(strings) + len(dynamic), 0, 4096),
        (2, 6, start + len(strings), 0, 0, len(dynamic), 0, 8),
    ]
    header = struct.pack(
        "<4s2B10xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0
    )
    return header + b"".join(struct.pack("<IIQQQQQQ", *s) for s in table) + strings + dynamic


@pytest.fixture
def build(tmp_path, monkeypatch):
    """`build(provider, *sonames)`: an ONNX Runtime whose provider links these; nothing preloads."""
    monkeypatch.setattr(onnxruntime, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr(libraries, "preload", lambda: None)
    (tmp_path / "capi").mkdir()

    def build(provider, *sonames):
        file = tmp_path / "capi" / f"libonnxruntime_providers_{provider}.so"
        file.write_bytes(elf(*sonames))

    return build


@pytest.mark.skipif(sys.platform != "linux", reason="the loader of Linux")
def test_libraries_that_the_loader_does_not_find_are_missing(build):
    build("cuda", "libno-such-cublas.so.11", "libc.so.6", "libcudnn-absent.so.8")
    assert libraries.missing("cuda") == ("libno-such-cublas.so.11", "libcudnn-absent.so.8")
    build("tensorrt", "libc.so.6")
    assert libraries.missing("tensorrt") == ()


def test_cudnn_is_asked_for_where_the_provider_opens_it_later(build, monkeypatch):
    monkeypatch.setattr(libraries, "loads", lambda soname: False)
    build("cuda", "libcublas.so.13")
    assert libraries.missing("cuda") == ("libcublas.so.13", "libcudnn.so.9")


def test_where_there_is_no_such_file_nobody_can_tell(build):
    assert libraries.missing("cuda") == ()


def test_preloading_is_silent(monkeypatch, capsys):
    monkeypatch.setattr(
        onnxruntime, "preload_dlls", lambda: print("Failed to load libcublas"), raising=False
    )
    libraries.preload()
    assert capsys.readouterr().out == ""
