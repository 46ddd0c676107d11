"""The rules behind a verdict: each says why a row's number must not be quoted, or nothing.

A reason is `rule: what was found`. Thresholds are keys of the sweep (Settings, `limit_…`);
docs/measurement.md has a paragraph for each rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchrack.machines import Accelerator
from benchrack.results import Measurement, OutputCheck
from benchrack.types import Settings

# Largest error of an output relative to the picture's largest reference output, and least cosine,
# by the precision that was asked for. FP32 may sum in another order; BF16 has 8 bits of mantissa.
TOLERANCES: dict[str, tuple[float, float]] = {
    "fp32": (1e-3, 0.99999),
    "tf32": (2e-2, 0.9995),
    "fp16": (5e-2, 0.999),
    "bf16": (2e-1, 0.97),
    "int8": (1.0, 0.90),
}
# NVML's reasons for a clock below the highest that are no fault: nothing to do, as was set, or at
# the card's power limit, where many cards run by design (the limit is in the record).
HARMLESS_THROTTLING = frozenset(
    {
        "gpu_idle",
        "applications_clocks_setting",
        "display_clock_setting",
        "sync_boost",
        "sw_power_cap",
    }
)
Rule = Callable[[Measurement, Settings, Accelerator | None], str | None]


def judge(
    measurement: Measurement, settings: Settings, card: Accelerator | None = None
) -> tuple[str, ...]:
    """All reasons against a measurement, in the order of the rules; none: it is valid.

    `card` is the descriptor of the device, where it is known.
    """
    return tuple(_reasons(measurement, settings, card))


def _reasons(
    measurement: Measurement, settings: Settings, card: Accelerator | None
) -> Iterator[str]:
    for name, rule in RULES.items():
        if found := rule(measurement, settings, card):
            yield f"{name}: {found}"


def _not_steady(m: Measurement, settings: Settings, card: Accelerator | None) -> str | None:
    if m.steadiness is None or m.steadiness.warmup_steady:
        return None
    return f"still changing after {m.steadiness.warmup_s:.3g} s of warm-up"


def _noisy(m: Measurement, settings: Settings, card: Accelerator | None) -> str | None:
    """Rounds that scatter, or an interval that is wide or missing."""
    if m.images_per_s is None or m.steadiness is None:
        return None
    cv = m.steadiness.coefficient_of_variation
    if cv is not None and cv > settings.limit_variation:
        return f"rounds vary by {cv:.1%} (limit {settings.limit_variation:.1%})"
    rate = m.images_per_s
    if rate.low is None or rate.high is None:
        return f"{m.steadiness.rounds} rounds are too few for an interval"
    width = max(rate.high - rate.value, rate.value - rate.low) / rate.value
    if width > settings.limit_interval:
        return f"known to ±{width:.1%} only (limit ±{settings.limit_interval:.1%})"
    return None


def _fell_back(m: Measurement, settings: Settings, card: Accelerator | None) -> str | None:
    if not m.engine.deviations or _is_unfused(m):
        return None
    return "; ".join(m.engine.deviations)


def _unfused_int8(m: Measurement, settings: Settings, card: Accelerator | None) -> str | None:
    if not _is_unfused(m):
        return None
    return (
        f"{m.engine.low_precision_nodes} of {m.engine.compute_nodes} convolutions and matrix "
        "products ran in INT8"
    )


def _is_unfused(m: Measurement) -> bool:
    done, total = m.engine.low_precision_nodes, m.engine.compute_nodes
    asked_int8 = m.preparation.asked_precision == "int8"
    return asked_int8 and done is not None and total is not None and done < total


def _output_mismatch(m: Measurement, settings: Settings, card: Accelerator | None) -> str | None:
    check = m.output_check
    if check is None:
        return None
    if check.input_spread < settings.limit_spread:
        return "outputs hardly differ between inputs: no check of them means anything"
    return _beyond_tolerance(check, m.preparation.asked_precision)


def _beyond_tolerance(check: OutputCheck, precision: str) -> str | None:
    error, cosine = TOLERANCES.get(precision, TOLERANCES["fp32"])
    if check.max_relative_error <= error and check.cosine >= cosine:
        return None
    return (
        f"largest error {check.max_relative_error:.2g} (tolerance {error:g}), cosine "
        f"{check.cosine:.5f} (at least {cosine:g}) against {check.reference}"
    )


def _throttled(m: Measurement, settings: Settings, card: Accelerator | None) -> str | None:
    if m.power is None:
        return None
    active = [r for r in m.power.throttle_reasons if r not in HARMLESS_THROTTLING]
    if active:
        return ", ".join(active)
    clock = m.power.sm_clock_mhz_median
    base = card.figures.get("base_clock_mhz") if card else None
    if clock is None or base is None or clock >= settings.limit_clock_share * base.value:
        return None
    return f"the card ran at {clock:.0f} MHz, its base clock is {base.value:.0f} MHz"


def _shared_device(m: Measurement, settings: Settings, card: Accelerator | None) -> str | None:
    others = m.surroundings.other_processes if m.surroundings else ()
    return f"other processes used the card: {', '.join(others)}" if others else None


def _foreign_load(m: Measurement, settings: Settings, card: Accelerator | None) -> str | None:
    share = m.surroundings.foreign_cpu_share if m.surroundings else None
    if share is None or share <= settings.limit_foreign_load:
        return None
    return f"other processes took {share:.1%} of the CPU (limit {settings.limit_foreign_load:.1%})"


def _oversubscribed(m: Measurement, settings: Settings, card: Accelerator | None) -> str | None:
    found = m.surroundings
    if found is None or not found.threads_used or not found.usable_cores:
        return None
    if found.threads_used <= found.usable_cores:
        return None
    return f"{found.threads_used} threads on {found.usable_cores} usable cores"


def _short_window(m: Measurement, settings: Settings, card: Accelerator | None) -> str | None:
    if m.power is None or not m.power.energy_window_too_short:
        return None
    return f"{m.power.energy_window_s:.3g} s is too short for the power sensor"


def _impossible(m: Measurement, settings: Settings, card: Accelerator | None) -> str | None:
    share = share_of_peak(m, card)
    if share is None or share <= 1:
        return None
    return f"{share:.0%} of the card's published peak"


def share_of_peak(m: Measurement, card: Accelerator | None) -> float | None:
    """Model operations × images/s ÷ the descriptor's peak at the arithmetic that was asked for; of
    all devices of the case. None where a figure is missing."""
    peak = card.peak(m.preparation.asked_precision) if card else None
    if peak is None or m.images_per_s is None or not m.preparation.multiply_accumulates:
        return None
    operations = 2 * m.preparation.multiply_accumulates * m.images_per_s.value
    return operations / (peak.value * 1e12 * m.case.device_count)


def _one_start(m: Measurement, settings: Settings, card: Accelerator | None) -> str | None:
    if not settings.publish or settings.starts >= PUBLISHED_STARTS:
        return None
    return f"{settings.starts} starts; a published number needs {PUBLISHED_STARTS}"


# A distribution-free 95 % interval of a median needs six samples: 1 − 2 · 2⁻⁶ = 96.9 %.
PUBLISHED_STARTS = 6

RULES: dict[str, Rule] = {
    "not-steady": _not_steady,
    "noisy": _noisy,
    "fell-back": _fell_back,
    "unfused-int8": _unfused_int8,
    "output-mismatch": _output_mismatch,
    "throttled": _throttled,
    "shared-device": _shared_device,
    "foreign-load": _foreign_load,
    "oversubscribed-cpu": _oversubscribed,
    "power-window-too-short": _short_window,
    "impossible": _impossible,
    "too-few-starts": _one_start,
}
