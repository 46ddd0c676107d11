"""TensorRT engines for ONNX Runtime's provider: built once for a card and a batch size, and cached.

The provider builds an engine for the shapes that it has seen, and again when another comes: in the
middle of a measurement, and in every process of a world. So it is told the shapes beforehand
(`trt_profile_…`, since ONNX Runtime 1.15: microsoft/onnxruntime#15546), and one process builds the
engine while the others wait. TensorRT chooses its kernels for the `opt` shape: batch sizes do not
share an engine, or the result of one would depend on which was measured first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchrack.api import PrepareRequest
from benchrack.plugins.backends import onnx_graphs
from benchrack.plugins.backends.cuda_libraries import loaded_versions

Options = dict[str, str]


def cached(request: PrepareRequest, graph: Path, build: Callable[[Options], None]) -> Options:
    """The provider's options with which it finds its engine for the request's batch size in the
    cache; where it is not there, `build` is called first with options that make the provider keep
    what it builds.

    Raises CacheError, and what `build` raises.
    """
    import onnxruntime

    key = {
        "graph": graph.parent.name,  # a product of the cache, whose name is made of its contents
        "batch_size": request.batch_size,
        "device": request.device.name,
        "onnxruntime": onnxruntime.__version__,
        # Of the libraries this one alone: the others come in with whatever ran before.
        "tensorrt": [v for v in loaded_versions(tensorrt=True) if v.startswith("TensorRT ")],
    }
    folder = request.cache.get("tensorrt", key, lambda path: build(options(request, path)))
    return options(request, folder)


def options(request: PrepareRequest, folder: Path) -> Options:
    """INT8, engines kept in the folder, and batches from one to the request's; chosen for that."""

    def shape(batch_size: int) -> str:
        sizes = "x".join(map(str, (batch_size, *request.model.input_shape)))
        return f"{onnx_graphs.INPUT}:{sizes}"

    return {
        "device_id": str(request.device.index),
        "trt_int8_enable": "1",
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": str(folder),
        "trt_profile_min_shapes": shape(1),
        "trt_profile_opt_shapes": shape(request.batch_size),
        "trt_profile_max_shapes": shape(request.batch_size),
    }
