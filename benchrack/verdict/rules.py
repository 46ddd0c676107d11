"""The rules behind a verdict: each says why a row's number must not be quoted, or nothing.

A reason is `rule: what was found`. Thresholds are keys of the sweep (settings.Limits, `limit_…`);
docs/measurement.md has a paragraph for each rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchrack.energy.integrals import BUSY
from benchrack.statistics import trends
from benchrack.verdict.peak import bound, share_of_peak
from benchrack.verdict.tolerances import tolerance
from benchrack.vocabulary.results import Measurement
from benchrack.vocabulary.scenarios import Check, Rule, Yardstick

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


def judge(measurement: Measurement, by: Yardstick) -> tuple[str, ...]:
    """All reasons against a measurement, in the order of the rules, the scenario's own last; none:
    it is valid."""
    return tuple(_reasons(measurement, by))


def _reasons(measurement: Measurement, by: Yardstick) -> Iterator[str]:
    for rule in (*RULES, *by.scenario.rules):
        if rule.name in OF_SPEED_AND_ENERGY and not by.scenario.starts:
            continue
        if found := rule.check(measurement, by):
            yield f"{rule.name}: {found}"


def _not_steady(m: Measurement, by: Yardstick) -> str | None:
    if m.steadiness is None:
        return None
    if _drifts(m, by):
        moved = trends.drift(m.seconds_per_batch)
        return (
            f"the last third took {abs(moved):.1%} {'longer' if moved > 0 else 'less'} than the "
            f"first (limit {by.limits.drift:.1%})"
        )
    if not m.steadiness.warmup_steady:
        return f"no steady state was seen in {m.steadiness.warmup_s:.3g} s of warm-up{_windows(m)}"
    return None


def _windows(m: Measurement) -> str:
    """What else to say of a warm-up that ended at its limit: it may have been too short to tell."""
    seen = m.steadiness.warmup_windows if m.steadiness else None
    needed = m.steadiness.warmup_windows_needed if m.steadiness else None
    if seen is None or needed is None:
        return ""
    if seen >= needed:
        return f", {seen} windows"
    return f": {needed} windows are needed, and {seen} fit in (a larger warmup_limit_s helps)"


def _drifts(m: Measurement, by: Yardstick) -> bool:
    return abs(trends.drift(m.seconds_per_batch)) > by.limits.drift


def _noisy(m: Measurement, by: Yardstick) -> str | None:
    """Rounds that scatter, or an interval that is wide or missing; a drift makes both, and is a
    reason of its own."""
    if m.steadiness is None or _drifts(m, by):
        return None
    cv = m.steadiness.coefficient_of_variation
    if cv is not None and cv > by.limits.variation:
        return f"rounds vary by {cv:.1%} (limit {by.limits.variation:.1%})"
    if by.settings.run.publish and m.steadiness.independent is False:
        return "rounds are too few, or too correlated, to be independent in blocks"
    found = by.scenario.headline.of(m.result)
    if not found or found.low is None or found.high is None:
        what = "samples" if m.steadiness.rounds is None else "rounds"
        return f"{len(m.seconds_per_batch)} {what} are too few, or too correlated, for an interval"
    width = math.inf if found.half_width is None else found.half_width
    if width > by.limits.interval:
        return f"known to ±{width:.1%} only (limit ±{by.limits.interval:.1%})"
    return None


def _unsynchronised(m: Measurement, by: Yardstick) -> str | None:
    share = m.steadiness.unsynchronised_share if m.steadiness else None
    if share is None or share <= by.limits.unsynchronised:
        return None
    return (
        f"{share:.0%} of a batch's time passed after the session said that it was done "
        f"(limit {by.limits.unsynchronised:.0%})"
    )


def _fell_back(m: Measurement, by: Yardstick) -> str | None:
    deviations = m.engine.deviations
    if len(deviations) == 1 and _partly_int8(m):
        return None  # that is the rule unfused-int8
    if deviations:
        return "; ".join(deviations)
    asked = m.preparation.asked_precision
    if asked and m.engine.precision != asked and not _partly_int8(m):
        return f"{asked} was asked for, and {m.engine.precision} was computed"
    if by.card is not None and m.engine.device == "cpu":
        return f"{by.card.title} was asked for, and the CPU computed"
    return None


def _unfused_int8(m: Measurement, by: Yardstick) -> str | None:
    done, total = m.engine.low_precision_nodes, m.engine.compute_nodes
    if not _partly_int8(m) or not done or not total or done >= by.limits.int8_share * total:
        return None
    return f"{done} of {total} convolutions and matrix products ran in INT8"


def _partly_int8(m: Measurement) -> bool:
    done, total = m.engine.low_precision_nodes, m.engine.compute_nodes
    return bool(m.preparation.asked_precision == "int8" and done and total and done < total)


def _output_mismatch(m: Measurement, by: Yardstick) -> str | None:
    check = m.output_check
    if check is None:
        return None
    if not math.isfinite(check.max_relative_error):
        return "outputs are not finite numbers"
    if check.input_spread < by.limits.spread:
        return (
            f"outputs of different inputs differ by {check.input_spread:.1g} at least (limit "
            f"{by.limits.spread:g}): no check of them means anything"
        )
    error, distance = tolerance(m.preparation.asked_precision, by.limits.output_error)
    if check.max_relative_error <= error and 1 - check.cosine <= distance:
        return None
    return (
        f"largest error {check.max_relative_error:.2g} (tolerance {error:.2g}), 1 − cosine "
        f"{1 - check.cosine:.2g} (tolerance {distance:.2g}) against {check.reference}"
    )


def _throttled(m: Measurement, by: Yardstick) -> str | None:
    if m.power is None:
        return None
    active = [r for r in m.power.throttle_reasons if r not in HARMLESS_THROTTLING]
    if active:
        return ", ".join(active)
    clock = m.power.sm_clock_mhz_median
    base = by.card.figures.get("base_clock_mhz") if by.card else None
    if clock is None or base is None or clock >= by.limits.clock_share * base.value:
        return None
    return (
        f"the card ran at {clock:.0f} MHz, {clock / base.value:.0%} of its base clock (limit "
        f"{by.limits.clock_share:.0%})"
    )


def _shared_device(m: Measurement, by: Yardstick) -> str | None:
    others = m.surroundings.other_processes if m.surroundings else ()
    if len(others) <= by.limits.other_processes:
        return None
    return f"also on the card: {', '.join(others)}"


def _cpu_contention(m: Measurement, by: Yardstick) -> str | None:
    """What the kernel's clock can't resolve in a window this short is not held against it."""
    share = m.surroundings.foreign_cpu_share if m.surroundings else None
    blur = m.surroundings.foreign_cpu_resolution if m.surroundings else None
    if share is None or share - (blur or 0.0) <= by.limits.foreign_load:
        return None
    return f"other processes took {share:.1%} of the CPU (limit {by.limits.foreign_load:.1%})"


def _oversubscribed(m: Measurement, by: Yardstick) -> str | None:
    found = m.surroundings
    if found is None or not found.threads_used or not found.usable_cores:
        return None
    if found.threads_used <= by.limits.threads_per_core * found.usable_cores:
        return None
    return f"{found.threads_used} threads on {found.usable_cores} usable cores"


def _short_window(m: Measurement, by: Yardstick) -> str | None:
    window_s = m.power.energy_window_s if m.power else None
    minimum_s = m.power.energy_window_minimum_s if m.power else None
    if window_s is None or minimum_s is None:
        return None
    minimum_s *= by.limits.power_window
    return (
        f"energy over {window_s:.3g} s; its sensor needs {minimum_s:.3g} s"
        if window_s < minimum_s
        else None
    )


def _uncertain_energy(m: Measurement, by: Yardstick) -> str | None:
    share = max(_energy_uncertainties(m), default=0.0)
    if share <= by.limits.energy_uncertainty:
        return None
    limit = by.limits.energy_uncertainty
    said = f"energy is known to ±{share:.1%} only (limit ±{limit:.1%})"
    busy = m.power.utilisation_median if m.power else None
    if m.power and m.power.energy_method == "sampled" and busy is not None and busy < BUSY:
        said += f", busy {busy:.0%} of the time: its sensor may be in step with the pauses"
    return f"{said} (a larger limit_power_window measures for longer)"


def _energy_uncertainties(m: Measurement) -> Iterator[float]:
    """Relative, of the devices' energy and of the whole system's."""
    if (p := m.power) is None:
        return
    for energy_j, uncertainty_j in (
        (p.energy_j, p.energy_uncertainty_j),
        (p.system_energy_j, p.system_energy_uncertainty_j),
    ):
        if energy_j and uncertainty_j is not None:
            yield uncertainty_j / energy_j


def _impossible(m: Measurement, by: Yardstick) -> str | None:
    asked = m.preparation.asked_precision
    share, found = share_of_peak(m, by.card), bound(asked, by.card)
    if share is None or found is None:
        return None
    arithmetic, peak, possible = found
    limit = by.limits.peak_share * possible / peak
    if share <= limit:
        return None
    where = "" if arithmetic == asked else f" in {arithmetic.upper()}"
    return f"{share:.0%} of the card's published peak{where} (limit {limit:.0%})"


CHECKS: dict[str, Check] = {
    "not-steady": _not_steady,
    "noisy": _noisy,
    "unsynchronised": _unsynchronised,
    "fell-back": _fell_back,
    "unfused-int8": _unfused_int8,
    "output-mismatch": _output_mismatch,
    "throttled": _throttled,
    "shared-device": _shared_device,
    "cpu-contention": _cpu_contention,
    "oversubscribed-cpu": _oversubscribed,
    "power-window-too-short": _short_window,
    "energy-uncertain": _uncertain_energy,
    "impossible": _impossible,
}
RULES = tuple(Rule(name=name, check=check) for name, check in CHECKS.items())

OF_SPEED_AND_ENERGY = frozenset(
    {"throttled", "shared-device", "cpu-contention", "oversubscribed-cpu", "energy-uncertain"}
)
"""Rules about what slows a machine down, and what it draws: what a model answers does not depend on
them."""
