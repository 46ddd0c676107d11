"""Software: versions of what is installed, from what pip wrote down.

Frameworks are not imported for this. What they were built with, and which of CUDA's libraries they
loaded, is in each record (`engine_build`): the worker that computes asks them.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from benchrack.api import Provenance, hookimpl
from benchrack.hardware.installed import TENSORRT

DISTRIBUTIONS = (
    *("benchrack", "pytest", "pytest-benchmark", "nvidia-ml-py", "numpy", "pillow"),
    *("torch", "torchvision", "triton", "onnx", "onnxscript", "onnxruntime", "onnxruntime-gpu"),
    "openvino",
    *TENSORRT,
    "tensorrt-libs",  # of TensorRT 8.6
    # What the wheels of torch and ONNX Runtime link; the name ends with CUDA's version, or not.
    *(
        f"nvidia-{library}{suffix}"
        for library in ("cuda-runtime", "cudnn", "cublas", "nccl")
        for suffix in ("", "-cu11", "-cu12", "-cu13")
    ),
)


def gather() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "libc": " ".join(platform.libc_ver()).strip() or None,
        **_versions(DISTRIBUTIONS),
    }


def _versions(distributions: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in distributions:
        try:
            found[name.replace("-", "_")] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@hookimpl
def benchrack_provenance() -> Iterable[Provenance]:
    summary = "versions of Python, frameworks, CUDA, cuDNN and TensorRT as installed"
    return [Provenance(name="software", summary=summary, gather=gather)]
