"""Software: versions of what is installed, and of what the frameworks were built with.

Frameworks are not imported for this. Versions come from what pip wrote down; where a framework is
already imported it is asked for its build too.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable
from importlib import metadata
from typing import Any

import benchrack
from benchrack.provenance import Provenance

DISTRIBUTIONS = (
    *("benchrack", "pytest", "pytest-benchmark", "nvidia-ml-py", "numpy", "pillow"),
    *("torch", "torchvision", "triton", "onnx", "onnxscript", "onnxruntime", "onnxruntime-gpu"),
    *("openvino", "tensorrt", "tensorrt-cu11", "tensorrt-cu12", "tensorrt-cu13"),
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
        **_torch(sys.modules.get("torch")),
        **_onnxruntime(sys.modules.get("onnxruntime")),
    }


def _versions(distributions: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in distributions:
        try:
            found[name.replace("-", "_")] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _torch(torch: Any) -> dict[str, Any]:
    if torch is None:
        return {}
    cuda = torch.cuda.is_initialized()
    return {
        "torch_cuda": torch.version.cuda,
        "torch_git": torch.version.git_version,
        "torch_build": " ".join(torch.__config__.show().split()),
        # Asking for it loads the library, which only a run on a card has already done.
        "torch_cudnn": torch.backends.cudnn.version() if cuda else None,
        "torch_architectures": list(torch.cuda.get_arch_list()) if cuda else None,
    }


def _onnxruntime(onnxruntime: Any) -> dict[str, Any]:
    if onnxruntime is None:
        return {}
    return {
        "onnxruntime_build": onnxruntime.get_build_info(),
        "onnxruntime_providers": onnxruntime.get_available_providers(),
    }


@benchrack.hookimpl
def benchrack_provenance() -> Iterable[Provenance]:
    return [
        Provenance(
            name="software",
            summary="versions of Python, frameworks, CUDA, cuDNN and TensorRT, build flags",
            gather=gather,
        )
    ]
