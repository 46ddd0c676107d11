"""What the meters read beside a case, as it goes into the record."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from benchrack.energy.integrals import all_known, images_per_j
from benchrack.energy.metering import Idle, Metering, Window
from benchrack.vocabulary.combining import total
from benchrack.vocabulary.meters import Conditions, Domain, Reading, of_domains
from benchrack.vocabulary.results import Power

# What is measured on a kind of device draws its energy there.
DOMAINS: Mapping[str, tuple[Domain, ...]] = {"cuda": ("accelerator",), "cpu": ("cpu", "dram")}


def power_of(
    metered: Window,
    metering: Metering,
    *,
    device_kind: str,
    images_per_s: float | None,
    rounds: Window | None = None,
    flagged: bool = True,
) -> Power:
    """What goes into the record: the energy of the devices that did the work, the host's, and the
    whole system's where a meter sees that.

    `images_per_s` is the throughput in the same window. What could not be read is None. Where
    `metered` is an energy pass, `rounds` is the window of the rounds that were measured: their
    conditions count too. What a sensor read over a window that is too short for it is flagged, or
    else left out.
    """
    domains, opened, idle = DOMAINS[device_kind], metering.opened, metering.idle
    faults = [*metered.faults, *(f for r in metered.readings for f in r.faults)]
    if rounds is not None:
        faults += [*rounds.faults, *(f for r in rounds.readings for f in r.faults)]
    about = Power(
        meters=tuple(meter.name for meter in opened.meters),
        meters_absent=opened.absences,
        meter_faults=tuple(dict.fromkeys(faults)),
        metered_devices=tuple(d for r in of_domains(metered.readings, *domains) for d in r.devices),
        **dataclasses.asdict(_conditions(domains, rounds, metered)),
    )
    readings = [reading for reading in metered.readings if flagged or not reading.too_short]
    own, system = of_domains(readings, *domains), of_domains(readings, "system")
    told = [*own, *system]
    energy_j, uncertainty_j, power_w = _energy(own)
    idle_w, spread_w = _idle(own, idle)
    system_energy_j, system_uncertainty_j, system_w = _energy(system)
    system_idle_w, system_spread_w = _idle(system, idle)
    return dataclasses.replace(
        about,
        energy_j=energy_j,
        energy_uncertainty_j=uncertainty_j,
        energy_per_image_j=power_w / images_per_s if power_w and images_per_s else None,
        energy_by_device_j=all_known([j for r in own for j in r.energy_by_device_j]),
        sampled_energy_j=total([reading.sampled_energy_j for reading in own]),
        host_energy_j=total(
            [reading.energy_j for reading in of_domains(readings, *DOMAINS["cpu"])]
        ),
        energy_window_s=told[0].window_s if told else None,
        energy_window_minimum_s=max((reading.minimum_window_s for reading in told), default=None),
        energy_window_too_short=any(reading.too_short for reading in told) if told else None,
        energy_method=own[0].method if own else None,
        sampling_period_s=own[0].sampling_period_s if own else None,
        sensor_period_s=max((reading.sensor_period_s for reading in own), default=None),
        sensor_period_observed=all(r.sensor_period_observed for r in own) if own else None,
        average_power_w=power_w,
        idle_power_w=idle_w,
        idle_power_spread_w=spread_w,
        images_per_s_per_w=images_per_j(images_per_s, power_w),
        images_per_s_per_w_above_idle=images_per_j(images_per_s, power_w, idle_w),
        system_meter=system[0].meter if system else None,
        system_energy_j=system_energy_j,
        system_energy_uncertainty_j=system_uncertainty_j,
        system_power_w=system_w,
        system_idle_power_w=system_idle_w,
        system_idle_power_spread_w=system_spread_w,
        system_images_per_s_per_w=images_per_j(images_per_s, system_w),
        system_images_per_s_per_w_above_idle=images_per_j(images_per_s, system_w, system_idle_w),
    )


def _conditions(domains: Sequence[Domain], *windows: Window | None) -> Conditions:
    """Of the devices that did the work: in the rounds, and in the energy pass that followed."""
    found = Conditions()
    for closed in windows:
        for reading in of_domains(closed.readings, *domains)[:1] if closed else ():
            found = found.with_worst_of(reading.conditions)
    return found


def _energy(readings: Sequence[Reading]) -> tuple[float | None, float | None, float | None]:
    """Energy, its uncertainty, and average power, of the readings together."""
    return (
        total([reading.energy_j for reading in readings]),
        total([reading.uncertainty_j for reading in readings]),
        total([reading.average_power_w for reading in readings]),
    )


def _idle(
    readings: Sequence[Reading], idle: Mapping[Domain, Idle]
) -> tuple[float | None, float | None]:
    """Idle power of what the readings are of, and its spread."""
    known = [idle.get(domain) for domain in dict.fromkeys(r.domain for r in readings)]
    return (
        total([None if one is None else one.power_w for one in known]),
        total([None if one is None else one.spread_w for one in known]),
    )
