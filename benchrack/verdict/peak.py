"""How a measured rate compares with the peak that was published for the card."""

from __future__ import annotations

from benchrack.vocabulary.descriptors import Accelerator
from benchrack.vocabulary.results import Measurement

# Winograd's F(2×2, 3×3) computes a 3×3 convolution with 2.25 times fewer multiplications than are
# counted (A. Lavin and S. Gray, arXiv:1509.09308, section 4); libraries use it in FP32.
WINOGRAD = 2.25
# What libraries may store in half precision and compute in FP32.
HALF_PRECISIONS = ("fp16", "bf16")


def share_of_peak(m: Measurement, card: Accelerator | None) -> float | None:
    """Model operations × images/s ÷ the descriptor's peak at the arithmetic that was asked for, of
    all devices of the case; for latency, with the images/s of the median batch. Half precision is
    compared with the peak of FP32 where that is higher. None where a figure is missing."""
    found = bound(m.preparation.asked_precision, card)
    rate = _images_per_s(m)
    if found is None or rate is None or not m.preparation.multiply_accumulates:
        return None
    _, peak, _ = found
    operations = 2 * m.preparation.multiply_accumulates * rate
    return operations / (peak * 1e12 * m.case.device_count)


def bound(asked: str, card: Accelerator | None) -> tuple[str, float, float] | None:
    """The arithmetic whose published peak a rate is compared with, that peak, and the rate that is
    possible at most, both in 10^12 operations/s; None where nobody published a peak."""
    peak = card.peak(asked) if card else None
    if card is None or peak is None:
        return None
    if asked == "fp32":
        return asked, peak.value, WINOGRAD * peak.value
    fp32 = card.peak("fp32") if asked in HALF_PRECISIONS else None
    if fp32 is None:
        return asked, peak.value, peak.value
    arithmetic, highest = max((asked, peak.value), ("fp32", fp32.value), key=lambda each: each[1])
    return arithmetic, highest, max(peak.value, WINOGRAD * fp32.value)


def _images_per_s(m: Measurement) -> float | None:
    """What the scenario's result says (see Scenario.part); None where it tells no rate."""
    rate = getattr(m.result, "rate", None)
    found = rate(m.case.batch_size * m.case.device_count) if rate else None
    return found if found and found > 0 else None
