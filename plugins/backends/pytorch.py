"""PyTorch, eager: FP32, TF32, FP16 and BF16, on the CPU or a CUDA device."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchrack.api import (
    Backend,
    Device,
    Engine,
    LoadedModel,
    OutOfMemoryError,
    PrepareRequest,
    UnsupportedError,
    hookimpl,
    processors,
    ran_out,
)
from benchrack.hardware.installed import remedy_on, unsupported_on
from benchrack.plugins.backends.cuda_libraries import loaded_versions

if TYPE_CHECKING:
    import numpy as np
    import torch

# precision → (dtype of weights and activations, what it is)
PRECISIONS = {
    "fp32": ("float32", "FP32 throughout; TF32 switched off"),
    "tf32": ("float32", "FP32 storage, TF32 products on tensor cores (Ampere and later)"),
    "fp16": ("float16", "FP16 weights and activations"),
    "bf16": ("bfloat16", "BF16 weights and activations"),
}
TF32_CAPABILITY = (8, 0)
BF16_CAPABILITY = (8, 0)
# Older cards have no tensor cores; there PyTorch has cuDNN convolve FP16 in FP32 (its
# ATen/cudnn/Descriptors.h: CUDNN_DATA_FLOAT as the type of the mathematics).
FP16_CAPABILITY = (7, 0)
# oneDNN computes convolutions on CPUs. These variables, the first that is set, let it round what
# should be FP32 where the CPU is faster so (oneDNN, developer guide, "Primitive Attributes:
# floating-point math mode").
FPMATH_VARIABLES = ("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE")
FPMATH_ROUNDING = ("BF16", "F16", "TF32", "ANY")
# Of `torch.__config__.show()`, what a fact is called and where its version stands.
LIBRARIES = (
    ("GCC", r"GCC ([\d.]+)"),
    ("oneDNN", r"MKL-DNN v([\d.]+)"),
    ("MKL", r"Math Kernel Library Version ([\d.]+)"),
)
SWITCHES = r"((?:BLAS_INFO|BUILD_TYPE|LAPACK_INFO|PERF_WITH_\w+|USE_\w+)=(?!OFF|0)\w+)"


@hookimpl
def benchrack_backends() -> list[Backend]:
    return [_backend(precision, summary) for precision, (_, summary) in PRECISIONS.items()]


def _backend(precision: str, summary: str) -> Backend:
    return Backend(
        name=f"pytorch-{precision}",
        framework="PyTorch",
        precision=precision,
        summary=summary,
        prepare=lambda request: prepare(request, precision),
        unsupported=lambda device: unsupported(device, precision),
        runs_as=lambda device: runs_as(device, precision),
        falls_back=lambda device: falls_back(device, precision),
        emulates=lambda device: emulates(device, precision),
        remedy=lambda device: remedy_on(device, "pytorch", precision),
        requires=("torch",),
        extra="pytorch",
    )


def unsupported(device: Device, precision: str) -> str | None:
    """Why PyTorch can't run this precision on the device, or None."""
    if device.kind == "cpu":
        if precision == "tf32":
            return "TF32 is an arithmetic of NVIDIA cards from Ampere on; a CPU has none"
        return None
    import torch

    if reason := unsupported_on(device, "pytorch", precision):
        return reason
    if not torch.cuda.is_available():
        return (
            f"PyTorch {torch.__version__} sees no CUDA device: its build "
            f"{'has no CUDA' if torch.version.cuda is None else 'needs a newer driver'}"
        )
    capability = torch.cuda.get_device_capability(device.index)
    needed = {"tf32": TF32_CAPABILITY, "bf16": BF16_CAPABILITY}.get(precision)
    if needed and capability < needed:
        return (
            f"{torch.cuda.get_device_name(device.index)} (compute capability "
            f"{capability[0]}.{capability[1]}) has no {precision.upper()} arithmetic; "
            f"it came with {needed[0]}.{needed[1]}"
        )
    return None


def runs_as(device: Device, precision: str) -> str:
    """The engine and the arithmetic to expect."""
    name = precision.upper()
    if device.kind == "cpu" and precision == "fp32" and (asked := _rounding()):
        return f"eager, computes in {name} that oneDNN may round ({asked})"
    if falls_back(device, precision):
        return f"eager, computes in FP32 what it stores in {name}"
    if precision == "fp16" and _lacks_tensor_cores(device):
        return f"eager, computes in FP32 what it stores in {name}: the card has no tensor cores"
    return f"eager, computes in {name}"


def falls_back(device: Device, precision: str) -> str | None:
    """The deviation of all sessions of this precision on the device, or None."""
    if device.kind == "cuda":
        return None
    if precision == "fp32" and (asked := _rounding()):
        return f"{asked} lets oneDNN round products of FP32: unset it"
    return emulates(device, precision)


def emulates(device: Device, precision: str) -> str | None:
    """Why a session would only store its values in the precision, and convert each of them; or
    None. It takes several times as long as FP32."""
    if device.kind == "cuda" or precision not in ("fp16", "bf16") or _computes_on_cpu(precision):
        return None
    name = precision.upper()
    return f"this CPU has no {name} arithmetic: values are stored in {name} and computed in FP32"


def _lacks_tensor_cores(device: Device) -> bool:
    """Whether it is a card that computes FP16 products in FP32 units."""
    if device.kind == "cpu":
        return False
    import torch

    return bool(torch.cuda.get_device_capability(device.index) < FP16_CAPABILITY)


def prepare(request: PrepareRequest, precision: str) -> PyTorchSession:
    """A session in eager PyTorch, channels last, in inference mode.

    Raises UnsupportedError, WeightsError, or OutOfMemoryError where the weights do not fit.
    """
    import torch

    if reason := unsupported(request.device, precision):
        raise UnsupportedError(reason)
    _set_arithmetic(precision)
    torch.set_num_threads(request.threads)
    dtype: torch.dtype = getattr(torch, PRECISIONS[precision][0])
    loaded = request.model.load(request.weights, request.cache)
    try:
        module = loaded.module.to(
            device=str(request.device), dtype=dtype, memory_format=torch.channels_last
        ).eval()
    except torch.OutOfMemoryError as error:
        raise OutOfMemoryError(f"the weights of {request.model.name} do not fit: {error}") from None
    return PyTorchSession(
        engine=_engine(module, request, precision),
        loaded=loaded,
        module=module,
        device=request.device,
        dtype=dtype,
    )


def _set_arithmetic(precision: str) -> None:
    # Process-wide flags of the framework, so every session sets what it needs.
    import torch

    tf32 = precision == "tf32"
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True


def _engine(module: Any, request: PrepareRequest, precision: str) -> Engine:
    import torch

    layers = [m for m in module.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    wanted = getattr(torch, PRECISIONS[precision][0])
    on_cpu = request.device.kind == "cpu"
    computed, deviations = precision, []
    if deviation := falls_back(request.device, precision):
        computed = precision if precision == "fp32" else f"fp32, stored in {precision}"
        deviations.append(deviation)
    options = ["channels_last", "inference_mode"]
    if not on_cpu:
        options += ["cudnn.benchmark", f"allow_tf32={precision == 'tf32'}"]
    if precision == "fp16" and _lacks_tensor_cores(request.device):
        options.append("FP16 products in FP32 units: no tensor cores")
    return Engine(
        name="PyTorch eager",
        version=str(torch.__version__),
        device="cpu" if on_cpu else torch.cuda.get_device_name(request.device.index),
        precision=computed,
        threads=torch.get_num_threads() if on_cpu else None,
        instruction_set=_instruction_set(precision) if on_cpu else None,
        compute_nodes=len(layers),
        low_precision_nodes=(
            0 if deviations else sum(layer.weight.dtype == wanted for layer in layers)
        ),
        options=tuple(options),
        deviations=tuple(deviations),
        build=tuple(_build(on_cpu)),
    )


def _build(on_cpu: bool) -> Iterator[str]:
    """What this PyTorch was built of and with, its threads, and CUDA's libraries as loaded."""
    import torch

    shown = torch.__config__.show()
    yield f"commit {torch.version.git_version}"
    for name, pattern in LIBRARIES:
        if version := re.search(pattern, shown):
            yield f"{name} {version[1]}"
    yield f"built with {' '.join(re.findall(SWITCHES, shown))}"
    backend = re.search(r"parallel backend: (\w+)", torch.__config__.parallel_info())
    yield f"{backend[1] if backend else 'intra-op'} {torch.get_num_threads()} threads"
    yield f"inter-op {torch.get_num_interop_threads()} threads"
    if not on_cpu:
        yield f"CUDA {torch.version.cuda}"
        yield f"kernels for {' '.join(torch.cuda.get_arch_list())}"
        yield from loaded_versions()


def _rounding() -> str | None:
    """The environment variable by which oneDNN may round FP32, as it is set; None where it may
    not."""
    for name in FPMATH_VARIABLES:
        if mode := os.environ.get(name):
            return f"{name}={mode}" if mode.upper() in FPMATH_ROUNDING else None
    return None


def _computes_on_cpu(precision: str) -> bool:
    flags = processors.instruction_sets()
    native = {
        "fp16": {"avx512_fp16", "amx_fp16", "asimdhp"},
        "bf16": {"avx512_bf16", "amx_bf16", "bf16"},
    }
    return bool(native[precision] & flags)


def _instruction_set(precision: str) -> str:
    import torch

    level = torch.backends.cpu.get_cpu_capability()
    suffix = {"fp16": ("amx_fp16", "avx512_fp16"), "bf16": ("amx_bf16", "avx512_bf16")}
    extra = [flag for flag in suffix.get(precision, ()) if flag in processors.instruction_sets()]
    return " ".join([level, *extra])


@dataclass(slots=True)
class PyTorchSession:
    """An eager module on one device. Work on CUDA is asynchronous until `synchronize`."""

    engine: Engine
    loaded: LoadedModel
    module: Any
    device: Device
    dtype: torch.dtype

    def place(self, images: np.ndarray) -> torch.Tensor:
        import torch

        batch = torch.from_numpy(images)
        if self.device.kind == "cuda":
            batch = batch.pin_memory()
        return batch.to(
            device=str(self.device),
            dtype=self.dtype,
            memory_format=torch.channels_last,
            non_blocking=True,
        )

    def run(self, placed: torch.Tensor) -> torch.Tensor:
        import torch

        try:
            with torch.inference_mode():
                output: torch.Tensor = self.module(placed)
                return output
        except torch.OutOfMemoryError as error:
            raise OutOfMemoryError(_first_sentence(error)) from None
        except RuntimeError as error:
            if ran_out(str(error)):  # the CPU allocator's words
                raise OutOfMemoryError(_first_sentence(error)) from None
            raise

    def synchronize(self) -> None:
        if self.device.kind == "cuda":
            import torch

            torch.cuda.synchronize(self.device.index)

    def fetch(self, output: torch.Tensor) -> np.ndarray:
        array: np.ndarray = output.float().cpu().numpy()
        return array

    def close(self) -> None:
        import torch

        self.module, self.loaded = None, dataclasses.replace(self.loaded, module=None)
        if self.device.kind == "cuda":
            torch.cuda.empty_cache()


def _first_sentence(error: Exception) -> str:
    return str(error).splitlines()[0]
