"""Which frameworks are installed, read without importing them, and whether they serve a card."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchrack.api import Device, nvml
from benchrack.hardware import compatibility
from benchrack.hardware.compatibility import Framework, InstalledStack

# With Python bindings, or the libraries alone, as Benchrack's extra brings them.
TENSORRT = (
    "tensorrt",
    *(f"tensorrt-cu{cuda}{part}" for cuda in (13, 12, 11) for part in ("", "-libs")),
)

# `_cuda_getArchFlags` needs no card; `torch.cuda.get_arch_list()` is empty without a usable one.
_TORCH_BUILD = """
import json, torch
flags = getattr(torch._C, "_cuda_getArchFlags", lambda: None)()
print(json.dumps([torch.__version__, torch.version.cuda, (flags or "").split()]))
"""


def installed_stack(*, with_torch: bool = True) -> InstalledStack:
    """The versions of the frameworks.

    Asking torch for its kernels takes its import, about 2 s, in a process of its own unless it is
    imported already: do without it, or ask only where there is a card.
    """
    torch, torch_cuda, kernels = _torch_build() if with_torch else (None, None, [])
    return InstalledStack(
        torch=torch,
        torch_cuda=torch_cuda,
        torch_kernels=tuple(kernels),
        onnxruntime=first_version("onnxruntime-gpu"),
        tensorrt=first_version(*TENSORRT),
    )


def first_version(*distributions: str) -> str | None:
    """The version of the first of these distributions that is installed."""
    for name in distributions:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def unsupported_on(device: Device, framework: Framework, precision: str) -> str | None:
    """Why the installed framework has no code for a device, with the command that installs one
    that has; None where nothing speaks against it, or NVML does not tell what the card is."""
    if (card := _card(device)) is None:
        return None  # the framework will say why it can't use the card
    capability, driver_cuda = card
    return compatibility.unsupported_reason(
        capability,
        installed_stack(with_torch=framework == "pytorch"),
        framework=framework,
        precision=precision,
        driver_cuda=driver_cuda,
    )


def remedy_on(device: Device, framework: Framework, precision: str) -> str | None:
    """The command that installs a framework for a device that the current wheels do not serve; None
    where they do, or NVML does not tell what the card is. It needs no framework."""
    if (card := _card(device)) is None:
        return None
    capability, driver_cuda = card
    return compatibility.remedy(
        capability, framework=framework, precision=precision, driver_cuda=driver_cuda
    )


def _card(device: Device) -> tuple[str, str | None] | None:
    """A card's compute capability, and the highest CUDA that its driver serves."""
    if device.kind == "cpu":
        return None
    import pynvml

    try:
        with nvml.opened(pynvml):
            handle: Any = (
                pynvml.nvmlDeviceGetHandleByUUID(device.uuid)
                if device.uuid
                else pynvml.nvmlDeviceGetHandleByIndex(device.index)
            )
            major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
            cuda = nvml.known(pynvml, pynvml.nvmlSystemGetCudaDriverVersion)
    except pynvml.NVMLError:
        return None
    return f"{major}.{minor}", f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None


@lru_cache
def _torch_build() -> tuple[str | None, str | None, list[str]]:
    """Version, CUDA version and architectures of torch; it can't change within a process."""
    if importlib.util.find_spec("torch") is None:
        return None, None, []
    if "torch" in sys.modules:
        import torch

        flags = getattr(torch._C, "_cuda_getArchFlags", lambda: None)()
        return str(torch.__version__), torch.version.cuda, (flags or "").split()
    asked = subprocess.run(
        [sys.executable, "-c", _TORCH_BUILD], capture_output=True, text=True, check=False
    )
    try:
        found, cuda, kernels = json.loads(asked.stdout)
    except ValueError:  # it can't be imported: its backends will say so
        return first_version("torch"), None, []
    return found, cuda, kernels
