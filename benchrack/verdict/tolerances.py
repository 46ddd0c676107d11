"""How far outputs in each precision may be from FP32 of the same model."""

from __future__ import annotations

# Largest error of an output relative to the image's largest reference output, and 1 − cosine of
# all outputs, by the precision that was asked for; `limit_output_error` multiplies both. Measured
# on five networks (docs/measurement.md): FP32 is up to 2.5e-5 and 5e-11 away, on another engine or
# with Winograd's convolutions, and what was rounded to TF32 from 1.0e-3 and 1.5e-7 on. A bit less
# of mantissa doubles the error and quadruples 1 − cosine: so from FP16 and TF32 to BF16.
TOLERANCES: dict[str, tuple[float, float]] = {
    "fp64": (1e-4, 1e-8),
    "fp32": (1e-4, 1e-8),
    "tf32": (5e-2, 5e-4),
    "fp16": (5e-2, 5e-4),
    "bf16": (4e-1, 3e-2),
    "int8": (2.0, 1e-1),
}
COARSEST = TOLERANCES["int8"]


def tolerance(precision: str, factor: float = 1.0) -> tuple[float, float]:
    """Of the largest relative error, and of 1 − cosine, `factor` times; the coarsest for a
    precision that is not known here, such as FP8."""
    error, distance = TOLERANCES.get(precision, COARSEST)
    return error * factor, distance * factor
