"""ONNX files of a model, made once and cached: exported FP32, converted FP16, quantised INT8."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchrack.api import Device, LoadedModel, PrepareRequest, UnsupportedError, processors

if TYPE_CHECKING:
    import numpy as np

# Operator set 18 is the oldest that PyTorch's exporter writes, and IR 8 the version that goes with
# it: every ONNX Runtime from 1.17 on reads both.
OPSET = 18
IR_VERSION = 8
INPUT, OUTPUT = "images", "logits"
LARGEST_BATCH = 65_536
RECIPE = 1  # part of every cache key: raise it when the way of making a file changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """How a graph is quantised: types of activations and weights, per-channel weights always."""

    activations: str
    weights: str = "s8"
    reduce_range: bool = False
    for_tensorrt: bool = False

    def __str__(self) -> str:
        label = f"{self.activations}{self.weights}".upper()
        return f"{label} reduce_range" if self.reduce_range else label


def scheme_for(device: Device) -> Scheme:
    """The scheme that the engine fuses and runs fast there.

    TensorRT takes signed symmetric activations. On x86 ONNX Runtime fuses unsigned activations
    with signed weights; without an integer dot product (VNNI, AMX) that product saturates at 16
    bits, so weights give up one bit. Other CPUs run signed with signed.
    """
    if device.kind == "cuda":
        return Scheme(activations="s8", for_tensorrt=True)
    flags = processors.instruction_sets()
    if "sse2" not in flags:
        return Scheme(activations="s8")
    return Scheme(activations="u8", reduce_range=not flags & set(processors.INTEGER_DOT_PRODUCT))


def exported(request: PrepareRequest, loaded: LoadedModel) -> Path:
    """The model in FP32 with a dynamic batch axis."""

    def make(folder: Path) -> None:
        import torch

        channels = (2, *request.model.input_shape)
        batch = torch.export.Dim("batch", min=1, max=LARGEST_BATCH)
        with _quiet():
            program = torch.onnx.export(
                loaded.module,
                (torch.zeros(channels),),
                input_names=[INPUT],
                output_names=[OUTPUT],
                opset_version=OPSET,
                dynamo=True,
                dynamic_shapes=({0: batch},),
                verbose=False,
            )
            assert program is not None
            program.model.ir_version = IR_VERSION
            program.save(str(folder / "model.onnx"))

    key = {
        "model": request.model.name,
        "weights": loaded.digest,
        "torch": version("torch"),
        "opset": OPSET,
        "ir": IR_VERSION,
        "recipe": RECIPE,
    }
    return request.cache.get("onnx", key, make) / "model.onnx"


def converted_to_half(request: PrepareRequest, loaded: LoadedModel) -> Path:
    """The exported model with FP16 weights and activations, FP32 at its input and output."""
    source = exported(request, loaded)

    def make(folder: Path) -> None:
        import onnx
        from onnxruntime.transformers.float16 import convert_float_to_float16

        with _quiet():
            half = convert_float_to_float16(onnx.load(source), keep_io_types=True)
        onnx.save(half, folder / "model.onnx")

    key = {"source": source.parent.name, **_runtime_versions()}
    return request.cache.get("onnx-fp16", key, make) / "model.onnx"


def quantised(request: PrepareRequest, loaded: LoadedModel, scheme: Scheme) -> Path:
    """The exported model with QDQ pairs, per-channel weights, ranges from the calibration images.

    Raises UnsupportedError where there is nothing to calibrate on.
    """
    if request.calibration_digest is None:
        raise UnsupportedError(
            "INT8 has nothing to calibrate on: the data set sets no images aside "
            "(calibration_batches=0?)"
        )
    source = exported(request, loaded)

    def make(folder: Path) -> None:
        prepared = folder / "preprocessed.onnx"
        _preprocess(source, prepared)
        _quantise(prepared, folder / "model.onnx", request, scheme)
        prepared.unlink()

    key = {
        "source": source.parent.name,
        "calibration": request.calibration_digest,
        "scheme": str(scheme),
        "method": "minmax",
        **_runtime_versions(),
    }
    return request.cache.get("onnx-int8", key, make) / "model.onnx"


def _preprocess(source: Path, target: Path) -> None:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with _quiet():
        try:
            quant_pre_process(source, target)
        except Exception:  # symbolic shape inference of 1.17 fails on the exporter's graphs
            quant_pre_process(source, target, skip_symbolic_shape=True)


def _quantise(source: Path, target: Path, request: PrepareRequest, scheme: Scheme) -> None:
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    types = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}
    options: dict[str, Any] = {"ActivationSymmetric": scheme.for_tensorrt, "WeightSymmetric": True}
    if scheme.for_tensorrt:
        # TensorRT wants a pair of its own at every input, weights included, and no integer biases.
        options |= {"AddQDQPairToWeight": True, "DedicatedQDQPair": True, "QuantizeBias": False}
    with _quiet():
        quantize_static(
            source,
            target,
            _reader(request.calibration()),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            reduce_range=scheme.reduce_range,
            activation_type=types[scheme.activations],
            weight_type=types[scheme.weights],
            calibrate_method=CalibrationMethod.MinMax,
            extra_options=options,
        )


def _reader(batches: Iterator[np.ndarray]) -> Any:
    """ONNX Runtime's calibration reader over our batches."""
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> dict[str, np.ndarray] | None:
            batch = next(batches, None)
            return None if batch is None else {INPUT: batch}

    return Reader()


def _runtime_versions() -> dict[str, str]:
    import onnxruntime

    return {"onnxruntime": onnxruntime.__version__, "onnx": version("onnx"), "recipe": str(RECIPE)}


@contextmanager
def _quiet() -> Iterator[None]:
    """Exporter and quantiser chat in warnings and log lines that no user can act on."""
    previous = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(previous)
