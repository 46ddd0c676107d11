"""What ONNX Runtime can compute on a device, and what to install where it can't."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, metadata, version

from benchrack.api import Device, processors
from benchrack.hardware.compatibility import tensorrt_for
from benchrack.hardware.installed import remedy_on, unsupported_on
from benchrack.plugins.backends import onnxruntime_libraries

CPU, CUDA, TENSORRT = (f"{p}ExecutionProvider" for p in ("CPU", "CUDA", "Tensorrt"))
GPU = "onnxruntime-gpu"
DISTRIBUTIONS = ("onnxruntime", GPU)
CPU_HALF = "FP16 on ONNX Runtime's CPU provider is FP32 with casts"


def unsupported(device: Device, precision: str) -> str | None:
    """Why ONNX Runtime can't run this precision on the device, or None."""
    return next(_reasons(device, precision), None)


def falls_back(device: Device, precision: str) -> str | None:
    """The deviation of all sessions of this precision on the device, or None where there is none,
    or only the session will tell."""
    on_cpu = device.kind == "cpu" and precision == "fp16"
    return CPU_HALF if on_cpu and not _has_half_kernels() else None


def remedy(device: Device, precision: str) -> str | None:
    """The command that installs a stack for a card that the current wheels do not serve."""
    return remedy_on(device, "onnxruntime", precision)


def runs_as(device: Device, precision: str) -> str:
    """The provider and the arithmetic to expect."""
    if device.kind == "cuda":
        return f"{TENSORRT if precision == 'int8' else CUDA}, computes in {precision.upper()}"
    if precision == "fp16":
        some = "FP16 where it has kernels, else in " if _has_half_kernels() else ""
        return f"{CPU}, computes in {some}FP32 between casts from and to FP16"
    if precision == "int8":
        fast = processors.strongest(processors.INTEGER_DOT_PRODUCT)
        return f"{CPU}, computes in INT8 {f'by {fast}' if fast else 'without integer dot products'}"
    return f"{CPU}, computes in {precision.upper()}"


def _reasons(device: Device, precision: str) -> Iterator[str]:
    """The reasons against, those that hide others first."""
    if len(found := _installed()) > 1:
        yield (
            f"{' and '.join(found)} are installed over each other's files; which one runs is "
            f"chance: pip uninstall {' '.join(DISTRIBUTIONS)}, then "
            f"{remedy(device, precision) or 'install one of them'}"
        )
    if device.kind == "cpu":
        return
    if reason := unsupported_on(device, "onnxruntime", precision):
        yield reason
    import onnxruntime

    runtime = f"ONNX Runtime {onnxruntime.__version__}"
    available = onnxruntime.get_available_providers()
    if CUDA not in available:
        yield (
            f"{runtime} is a build without CUDA (providers: {', '.join(available)}): "
            f"pip uninstall onnxruntime, then "
            f"{remedy(device, precision) or f'pip install {GPU}'}"
        )
    if lost := onnxruntime_libraries.missing("cuda"):
        yield (
            f"{runtime} would compute on the CPU: its CUDA provider can't load "
            f"{', '.join(lost)}. {_where_from(lost, device, precision)}"
        )
    if precision != "int8":
        return
    lost = onnxruntime_libraries.missing("tensorrt")
    if lost or TENSORRT not in available:
        what = f"can't load {', '.join(lost)}" if lost else "is a build without it"
        yield (
            "INT8 on an NVIDIA card needs TensorRT (the CUDA provider has no integer "
            f"convolutions), and {runtime} {what}: install {tensorrt_for(onnxruntime.__version__)}"
        )


def _where_from(lost: Sequence[str], device: Device, precision: str) -> str:
    """What brings the libraries that the CUDA provider lacks."""
    if onnxruntime_libraries.DRIVER in lost:
        return (
            f"{onnxruntime_libraries.DRIVER} is the driver's: in a container, start it with "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        )
    with suppress(PackageNotFoundError):
        if {"cuda", "cudnn"} <= set(metadata(GPU).get_all("Provides-Extra") or ()):
            return f"Run pip install '{GPU}[cuda,cudnn]=={version(GPU)}'"
    own = "Install CUDA and cuDNN of these versions from NVIDIA, onto the loader's path"
    # For INT8 an old card has no stack but the one that needs them.
    stack = None if precision == "int8" else remedy(device, precision)
    return f"{own}, or: {stack}" if stack else own


def _has_half_kernels() -> bool:
    """The CPU provider has some for Arm, none for x86, whatever its instruction sets: on one with
    avx512_fp16, versions 1.22 and 1.31 computed every convolution in FP32."""
    return bool({"asimdhp", "fphp"} & processors.instruction_sets())


def _installed() -> list[str]:
    """Which distributions of ONNX Runtime are installed, each with its version."""
    found = []
    for name in DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return found
