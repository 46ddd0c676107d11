"""The call: command line, checkout, affinity, and the environment variables that matter.

How many threads a framework uses is in each record (`engine_build`): who computes knows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchrack import api
from benchrack.api import Provenance, hashed, hookimpl, without_passwords

# Variables that change how fast something runs, and nothing else: an allow-list, since others may
# hold secrets. TORCH and ORT have variables that name hosts and keys, so theirs are listed singly.
VARIABLES = re.compile(
    r"(OMP|GOMP|KMP|MKL|DNNL|ONEDNN|OPENBLAS|BLIS|VECLIB|NUMEXPR)_[A-Z0-9_]+"
    r"|CUDA_(VISIBLE_DEVICES|DEVICE_ORDER|LAUNCH_BLOCKING|MODULE_LOADING|DEVICE_MAX_CONNECTIONS)"
    r"|NVIDIA_(TF32_OVERRIDE|VISIBLE_DEVICES)|CUBLAS_WORKSPACE_CONFIG|CUDNN_[A-Z0-9_]+"
    r"|TORCH_(ALLOW_TF32_CUBLAS_OVERRIDE|CUDNN_V8_API_(DISABLED|DEBUG)|CUDA_ARCH_LIST)"
    r"|PYTORCH_(CUDA_ALLOC_CONF|ALLOC_CONF|NO_CUDA_MEMORY_CACHING|NVML_BASED_CUDA_CHECK)"
    r"|ORT_(TENSORRT_[A-Z0-9_]+|DISABLE_[A-Z0-9_]+)|NCCL_(P2P|SHM|IB|NET|ALGO|PROTO)[A-Z0-9_]*"
    r"|MALLOC_(ARENA_MAX|CONF)|LD_(PRELOAD|LIBRARY_PATH)|PYTHONHASHSEED|PYTHON_GIL"
)


def gather(
    environment: Mapping[str, str] = os.environ,
    command: Sequence[str] | None = None,
    checkout: Path | None = None,
) -> dict[str, Any]:
    return {
        "command": list(without_passwords(command or sys.argv)),
        "environment": [
            f"{name}={environment[name]}" for name in sorted(environment) if _matters(name)
        ],
        "affinity_cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "niceness": os.nice(0) if hasattr(os, "nice") else None,
        **_git(checkout or Path(api.__file__).parents[1]),
    }


def _matters(name: str) -> bool:
    return VARIABLES.fullmatch(name) is not None


def _git(checkout: Path) -> dict[str, Any]:
    """Commit of the checkout that Benchrack runs from, whether files differ from it, and a digest
    of what differs."""
    if not (checkout / ".git").exists():  # installed from a wheel
        return {}
    commit = _asked(checkout, "rev-parse", "HEAD")
    changes = _asked(checkout, "status", "--porcelain", "--untracked-files=no")
    difference = _asked(checkout, "diff", "--no-ext-diff", "--binary", "HEAD") if changes else ""
    return {
        "git_commit": commit or None,
        "git_dirty": None if changes is None else bool(changes),
        "git_changes": hashed(difference) if difference else None,
    }


def _asked(checkout: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(checkout), "--no-optional-locks", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):  # no git; a checkout of another user
        return None
    return answer.stdout.strip()


@hookimpl
def benchrack_provenance() -> Iterable[Provenance]:
    summary = "command line, commit, affinity, environment variables that matter"
    return [Provenance(name="call", summary=summary, gather=gather)]
