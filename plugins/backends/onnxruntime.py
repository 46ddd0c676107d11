"""ONNX Runtime: FP32, FP16 and INT8, on the CPU, CUDA and TensorRT providers."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
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
from benchrack.plugins.backends import onnx_graphs, onnxruntime_libraries, tensorrt_engines
from benchrack.plugins.backends.cuda_libraries import loaded_versions
from benchrack.plugins.backends.onnxruntime_profile import Profile, read_profile
from benchrack.plugins.backends.onnxruntime_support import (
    CPU,
    CPU_HALF,
    CUDA,
    TENSORRT,
    falls_back,
    remedy,
    runs_as,
    unsupported,
)

if TYPE_CHECKING:
    import numpy as np

SUMMARIES = {
    "fp32": "the exported graph; TF32 switched off on CUDA",
    "fp16": "converted to FP16, FP32 at input and output",
    "int8": "static QDQ quantisation, per-channel weights; TensorRT on NVIDIA cards",
}


@hookimpl
def benchrack_backends() -> list[Backend]:
    return [_backend(precision, summary) for precision, summary in SUMMARIES.items()]


def _backend(precision: str, summary: str) -> Backend:
    return Backend(
        name=f"onnxruntime-{precision}",
        framework="ONNX Runtime",
        precision=precision,
        summary=summary,
        prepare=lambda request: prepare(request, precision),
        unsupported=lambda device: unsupported(device, precision),
        runs_as=lambda device: runs_as(device, precision),
        falls_back=lambda device: falls_back(device, precision),
        remedy=lambda device: remedy(device, precision),
        requires=("onnxruntime", "onnx", "onnxscript", "torch"),
        extra="onnxruntime",
    )


def prepare(request: PrepareRequest, precision: str) -> OnnxRuntimeSession:
    """A session on the provider that computes this precision on the device.

    Raises UnsupportedError, WeightsError, CacheError, or OutOfMemoryError.
    """
    if reason := unsupported(request.device, precision):
        raise UnsupportedError(reason)
    loaded = request.model.load(request.weights, request.cache)
    scheme = onnx_graphs.scheme_for(request.device) if precision == "int8" else None
    graphs: dict[str, Callable[[], Path]] = {
        "fp32": lambda: onnx_graphs.exported(request, loaded),
        "fp16": lambda: onnx_graphs.converted_to_half(request, loaded),
        "int8": lambda: onnx_graphs.quantised(
            request, loaded, scheme or onnx_graphs.Scheme(activations="u8")
        ),
    }
    graph = graphs[precision]()
    loaded = dataclasses.replace(loaded, module=None)  # the graph holds the weights from here on
    runtime, profile = _start(graph, request, precision)
    engine = _engine(runtime, profile, request, precision)
    if scheme is not None:
        detail = f"{scheme}, per channel, minmax over {request.calibration_images} images"
        engine = dataclasses.replace(engine, options=(*engine.options, detail))
    return OnnxRuntimeSession(
        engine=engine,
        loaded=loaded,
        runtime=runtime,
        device=request.device,
        classes=request.model.classes,
    )


def _providers(graph: Path, request: PrepareRequest, precision: str) -> list[Any]:
    if request.device.kind == "cpu":
        return [CPU]
    cuda = (CUDA, {"device_id": str(request.device.index), "use_tf32": "0"})
    if precision != "int8":
        return [cuda]

    def build(tensorrt: tensorrt_engines.Options) -> None:
        import onnxruntime

        session = onnxruntime.InferenceSession(str(graph), providers=[(TENSORRT, tensorrt), cuda])
        session.run(None, {onnx_graphs.INPUT: _noise(request, request.batch_size)})

    return [(TENSORRT, tensorrt_engines.cached(request, graph, build)), cuda]


def _noise(request: PrepareRequest, batch_size: int) -> np.ndarray:
    import numpy as np

    shape = (batch_size, *request.model.input_shape)
    return np.random.default_rng(request.seed).standard_normal(shape, dtype=np.float32)


def _start(graph: Path, request: PrepareRequest, precision: str) -> tuple[Any, Profile]:
    """A session, and the profile of its first batch; profiling is off from then on."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)  # what falls back is read from the profile instead
    if request.device.kind == "cuda":
        onnxruntime_libraries.preload()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = request.threads
    options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory(prefix="benchrack-profile-") as folder:
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "batch")
        try:
            providers = _providers(graph, request, precision)
            runtime = onnxruntime.InferenceSession(str(graph), options, providers=providers)
            runtime.run(None, {onnx_graphs.INPUT: _noise(request, 1)})
        except Exception as error:
            raise _translated(error) from error
        return runtime, read_profile(Path(runtime.end_profiling()))


def _engine(runtime: Any, profile: Profile, request: PrepareRequest, precision: str) -> Engine:
    import onnxruntime

    on_cpu = request.device.kind == "cpu"
    wanted = CPU if on_cpu else TENSORRT if precision == "int8" else CUDA
    computed = profile.compute_nodes(precision)
    if wanted == TENSORRT:  # inside an engine kernels are TensorRT's own; it was told INT8
        computed = profile.compute_nodes("engine")
    total = profile.compute_nodes()
    fast = {"int8": processors.INTEGER_DOT_PRODUCT, "fp16": processors.HALF_PRECISION}
    flags = (*fast.get(precision, ()), "avx512f", "avx2", "asimd")
    return Engine(
        name=f"ONNX Runtime {runtime.get_providers()[0]}",
        version=onnxruntime.__version__,
        device="cpu" if on_cpu else request.device.name or str(request.device),
        precision=precision if computed == total else _mixture(profile),
        threads=request.threads if on_cpu else None,
        instruction_set=processors.strongest(flags) if on_cpu else None,
        compute_nodes=total,
        low_precision_nodes=computed,
        provider_share=profile.provider_share,
        options=() if on_cpu else ("use_tf32=0",),
        deviations=tuple(_deviations(profile, precision, wanted, computed)),
        build=tuple(_build(runtime, on_cpu)),
    )


def _build(runtime: Any, on_cpu: bool) -> Iterator[str]:
    """What this ONNX Runtime was built of and with, the session's threads, and CUDA's libraries as
    loaded; where a version is old it does not tell all of it."""
    import onnxruntime

    if hasattr(onnxruntime, "get_build_info"):
        yield onnxruntime.get_build_info().removeprefix("ORT Build Info: ").rstrip(", ")
    options = runtime.get_session_options()
    yield f"intra-op {options.intra_op_num_threads} threads"
    yield f"inter-op {options.inter_op_num_threads} threads"
    if not on_cpu:
        yield from loaded_versions(tensorrt=TENSORRT in runtime.get_providers())


def _mixture(profile: Profile) -> str:
    return ", ".join(f"{kind} ({count})" for kind, count in profile.arithmetics().items())


def _deviations(profile: Profile, precision: str, wanted: str, computed: int) -> list[str]:
    found = []
    total = profile.compute_nodes()
    elsewhere = total - profile.compute_nodes(provider=wanted)
    if elsewhere:
        found.append(
            f"{elsewhere} of {total} convolutions and matrix products ran outside {wanted}"
        )
    if computed < total:
        if precision == "fp16" and wanted == CPU and computed == 0:
            found.append(CPU_HALF)
        else:
            found.append(
                f"{total - computed} of {total} convolutions and matrix products did not run in "
                f"{precision.upper()}"
            )
    return found


def _translated(error: Exception) -> Exception:
    """The runtime's own out-of-memory errors as ours; any other error as it is."""
    words = str(error).lower()
    if ran_out(words):
        return OutOfMemoryError(str(error).splitlines()[0])
    return error


@dataclass(slots=True)
class OnnxRuntimeSession:
    """An inference session with input and output bound on its device."""

    engine: Engine
    loaded: LoadedModel
    runtime: Any
    device: Device
    classes: int
    _bindings: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    def place(self, images: np.ndarray) -> Any:
        import onnxruntime

        return onnxruntime.OrtValue.ortvalue_from_numpy(images, self.device.kind, self.device.index)

    def run(self, placed: Any) -> Any:
        binding, output = self._binding(placed.shape()[0])
        binding.bind_ortvalue_input(onnx_graphs.INPUT, placed)
        try:
            self.runtime.run_with_iobinding(binding)
        except Exception as error:
            raise _translated(error) from error
        return output

    def _binding(self, batch_size: int) -> tuple[Any, Any]:
        """A binding whose output has room for this batch, made once a batch size."""
        import numpy as np
        import onnxruntime

        if batch_size not in self._bindings:
            output = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                (batch_size, self.classes), np.float32, self.device.kind, self.device.index
            )
            binding = self.runtime.io_binding()
            binding.bind_ortvalue_output(onnx_graphs.OUTPUT, output)
            self._bindings[batch_size] = binding, output
        return self._bindings[batch_size]

    def synchronize(self) -> None:
        for binding, _ in self._bindings.values():
            binding.synchronize_outputs()

    def fetch(self, output: Any) -> np.ndarray:
        array: np.ndarray = output.numpy()
        return array.copy()  # the next batch is written to the same place

    def close(self) -> None:
        self._bindings.clear()
        self.runtime = None
