"""Timing on a clock and a synchroniser that are given: warm-up, rounds, stop rule, single batches.

A step starts one batch and may return before the device has finished; `synchronize` returns when it
has. Nothing here knows a framework, so tests run the same code on a clock of their own.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchrack import statistics
from benchrack.types import Settings

Clock = Callable[[], float]
Step = Callable[[int], object]

MINIMUM_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmup:
    """How a session was brought to its steady state: seconds, batches, whether it got there, and
    the seconds that a batch took in the last window."""

    seconds: float
    batches: int
    steady: bool
    batch_s: float
    first_batch_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Rounds of one session: mean seconds a batch of each, and what the stop rule made of them."""

    seconds_per_batch: tuple[float, ...]
    batches_per_round: int
    assessment: statistics.Assessment
    stop_reason: str


@contextmanager
def collection_held() -> Iterator[None]:
    """No garbage collection while timing; what is garbage now goes first."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def warm_up(
    step: Step, synchronize: Callable[[], None], settings: Settings, clock: Clock
) -> Warmup:
    """Run batches until windows of at least `round_s` are steady, or until `warmup_limit_s`.

    The first batch is timed apart: it compiles, tunes and allocates. The rule is
    `statistics.steady` over the window times.
    """
    started = clock()
    step(0)
    synchronize()
    first_batch_s = batch_s = clock() - started
    batches, windows, steady = 1, [], False
    while not steady and clock() - started < settings.warmup_limit_s:
        count = _batches_for(settings.round_s, batch_s)
        batch_s = _timed(step, synchronize, clock, batches, count)
        batches += count
        windows.append(batch_s)
        steady = statistics.steady(windows)
    return Warmup(
        seconds=clock() - started,
        batches=batches,
        steady=steady,
        batch_s=batch_s,
        first_batch_s=first_batch_s,
    )


def measure_rounds(
    step: Step,
    synchronize: Callable[[], None],
    settings: Settings,
    clock: Clock,
    batch_s: float,
) -> Rounds:
    """Rounds of enough batches to last `round_s`, until the interval of the median is within
    `interval` of it, or until `time_limit_s` has passed.

    The rule looks at growing numbers of rounds, not after each, so that looking does not bias it.
    At least three rounds are taken whatever the limit.
    """
    count = _batches_for(settings.round_s, batch_s)
    looks = statistics.checkpoints()
    look = next(looks)
    rounds: list[float] = []
    done = 0
    started = clock()
    with collection_held():
        while True:
            rounds.append(_timed(step, synchronize, clock, done, count))
            done += count
            if len(rounds) >= look:
                look = next(looks)
                assessment = statistics.assess(rounds)
                if _within(assessment, settings.interval):
                    stop_reason = "interval"
                    break
            if len(rounds) >= MINIMUM_ROUNDS and clock() - started >= settings.time_limit_s:
                assessment, stop_reason = statistics.assess(rounds), "time-limit"
                break
    return Rounds(
        seconds_per_batch=tuple(rounds),
        batches_per_round=count,
        assessment=assessment,
        stop_reason=stop_reason,
    )


def measure_singly(
    step: Step,
    synchronize: Callable[[], None],
    settings: Settings,
    clock: Clock,
) -> tuple[float, ...]:
    """Seconds of single batches, each synchronised before its clock is read, until there are
    `latency_samples` of them or `time_limit_s` has passed; at least one."""
    samples: list[float] = []
    started = clock()
    with collection_held():
        while not samples or (
            len(samples) < settings.latency_samples and clock() - started < settings.time_limit_s
        ):
            samples.append(_timed(step, synchronize, clock, len(samples), 1))
    return tuple(samples)


def _timed(
    step: Step, synchronize: Callable[[], None], clock: Clock, first: int, count: int
) -> float:
    """Mean seconds a batch over `count` batches run back to back, then synchronised."""
    started = clock()
    for index in range(first, first + count):
        step(index)
    synchronize()
    return (clock() - started) / count


def _batches_for(seconds: float, batch_s: float) -> int:
    return max(1, math.ceil(seconds / batch_s)) if batch_s > 0 else 1


def _within(assessment: statistics.Assessment, interval: float) -> bool:
    half_width = assessment.half_width
    return assessment.independent and half_width is not None and half_width <= interval
