"""What an ONNX Runtime session really ran: read from its own profile of one batch.

The profile lists each executed kernel with its provider and the types of its inputs. It works the
same for every provider and version, and shows the graph after all fusions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchrack.api import ResultsError

COMPUTE = ("Conv", "Gemm", "MatMul")
ARITHMETIC = {
    "float": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "double": "fp64",
    "uint8": "int8",
    "int8": "int8",
}


@dataclass(frozen=True, slots=True)
class Profile:
    """Kernels of one batch: how many on each provider, and the compute kernels (convolutions and
    matrix products) by provider and arithmetic: `fp32`, `fp16`, `int8`, or `engine` in TensorRT."""

    providers: Mapping[str, int]
    compute: Mapping[tuple[str, str], int]

    @property
    def provider_share(self) -> tuple[str, ...]:
        total = sum(self.providers.values())
        return tuple(f"{p}={n / total:.3f}" for p, n in sorted(self.providers.items()))

    def compute_nodes(self, arithmetic: str | None = None, provider: str | None = None) -> int:
        """How many compute kernels there are, of this arithmetic and on this provider."""
        return sum(
            count
            for (where, kind), count in self.compute.items()
            if arithmetic in (None, kind) and provider in (None, where)
        )

    def arithmetics(self) -> dict[str, int]:
        """Compute kernels by arithmetic, the most frequent first."""
        counts: Counter[str] = Counter()
        for (_, kind), count in self.compute.items():
            counts[kind] += count
        return dict(counts.most_common())


def read_profile(path: Path) -> Profile:
    """The profile that ONNX Runtime wrote. Raises ResultsError if it is not one."""
    try:
        events = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ResultsError(f"ONNX Runtime's profile {path} can't be read: {error}") from error
    kernels = [e["args"] for e in events if e.get("cat") == "Node" and _is_kernel(e)]
    return Profile(
        providers=Counter(str(k.get("provider")) for k in kernels),
        compute=Counter(
            (str(k.get("provider")), _arithmetic(k)) for k in kernels if _computes(k["op_name"])
        ),
    )


def _is_kernel(event: Mapping[str, Any]) -> bool:
    return "op_name" in event.get("args", {}) and event.get("name", "").endswith("_kernel_time")


def _computes(operator: str) -> bool:
    return any(word in operator for word in COMPUTE) or operator.startswith("TRTKernel")


def _arithmetic(kernel: Mapping[str, Any]) -> str:
    if kernel["op_name"].startswith("TRTKernel"):
        return "engine"
    first: Iterable[str] = (kernel.get("input_type_shape") or [{}])[0]
    return ARITHMETIC.get(next(iter(first), ""), "unknown")
