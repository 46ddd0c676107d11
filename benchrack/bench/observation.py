"""What runs beside a measurement: the host is watched, and the meters have their window."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager

from benchrack.bench.bench import Bench
from benchrack.energy.metering import Window
from benchrack.energy.power import power_of
from benchrack.machine.surroundings import Watch, watched
from benchrack.timing.rotation import Rotation
from benchrack.timing.rounds import measure_rounds
from benchrack.vocabulary.backends import Session
from benchrack.vocabulary.results import Power

UNREACHABLE = -1.0  # an interval that no rounds have: only the time limit ends them


def host_watched(bench: Bench, session: Session) -> AbstractContextManager[Watch]:
    """Watch host and device around a measurement."""
    return watched(bench.device, session.engine.threads or bench.threads, bench.cpu_times)


def power(
    bench: Bench,
    batches: Rotation,
    batch_s: float,
    metered: Window | None = None,
    images: int = 0,
) -> Power | None:
    """Energy over the metered rounds, or over a pass of its own where there were none, or they were
    too short for a sensor; the cards' conditions in both."""
    opened, ranks = bench.metering.opened, bench.ranks
    needed_s = bench.settings.limits.power_window * opened.minimum_window_s
    enough = metered is not None and metered.seconds >= needed_s
    # Ranks run another pass together, or none, whichever of them has the meters.
    wanted, needed_s = ranks.all_reduce_max(bool(opened.meters) and not enough, needed_s)
    rounds = None
    if wanted:
        bench.progress("measuring energy")
        longer = dataclasses.replace(
            bench.settings.measure, time_limit_s=1.2 * needed_s, interval=UNREACHABLE
        )
        with opened.window() as longer_window:
            before = batches.steps
            measure_rounds(
                batches.step,
                batches.session.synchronize,
                longer,
                bench.clock,
                batch_s,
                ranks=ranks,
            )
            images = (batches.steps - before) * batches.batch_size
        rounds, metered = metered, longer_window
    if not (opened.meters or opened.absent):
        return None
    if metered is None:  # there is no meter to make a pass for
        return Power(meters=(), meters_absent=opened.absences)
    rate = ranks.size * images / metered.seconds if metered.seconds > 0 else None
    return power_of(
        metered, bench.metering, device_kind=bench.device.kind, images_per_s=rate, rounds=rounds
    )


def conditions(bench: Bench, metered: Window) -> Power | None:
    """The cards' conditions in a window that is no measurement of speed, and power and energy if it
    was long enough; nothing is told per image."""
    opened = bench.metering.opened
    if not (opened.meters or opened.absent):
        return None
    return power_of(
        metered, bench.metering, device_kind=bench.device.kind, images_per_s=None, flagged=False
    )
