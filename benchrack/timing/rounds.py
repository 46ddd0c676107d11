"""Timing on a clock and a synchroniser that are given: warm-up, rounds, stop rule, single batches.

A step starts one batch and may return before the device has finished; `synchronize` returns when it
has. Nothing here knows a framework, so tests run the same code on a clock of their own.

Several processes that measure together (`ranks`) warm up and run their rounds in step, and stop
together; a round takes what the slowest of them took. A process alone waits for nobody.
"""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchrack.statistics import blocks, trends
from benchrack.timing.ranks import ALONE, Ranks, agreed
from benchrack.vocabulary.settings import Measuring

Clock = Callable[[], float]
Step = Callable[[int], object]

MINIMUM_ROUNDS = 3
# Windows on which a steady state is judged: twelve; of long ones as many as last two seconds.
WINDOWS, LEAST_WINDOWS, WINDOWS_S = 12, 6, 2.0
# Single batches of several processes are free of each other for so long: waiting after each would
# start all of them at once, and let the last of each run undisturbed.
STRETCH_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmup:
    """How a session was brought to its steady state: seconds, batches, windows (and how many the
    rule needs), whether it got there, and the seconds that a batch took in the latest windows:
    those of the slowest process."""

    seconds: float
    batches: int
    windows: int
    windows_needed: int
    steady: bool
    batch_s: float
    first_batch_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Rounds: mean seconds a batch of each, and what the stop rule made of them.

    A round's seconds are those of the slowest process, `own_seconds_per_batch` this one's.
    `between_s` is what passed, on average, from the end of a round to the start of the next: to
    the barrier and the decision.
    """

    seconds_per_batch: tuple[float, ...]
    own_seconds_per_batch: tuple[float, ...]
    batches_per_round: int
    assessment: blocks.Assessment
    stop_reason: str
    between_s: float


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
    step: Step,
    synchronize: Callable[[], None],
    settings: Measuring,
    clock: Clock,
    *,
    ranks: Ranks = ALONE,
) -> Warmup:
    """Run batches until windows of at least `round_s` are steady, or until `warmup_limit_s`; at
    least one window.

    The first batch is timed apart: it compiles, tunes and allocates. The rule is `trends.steady`
    over the times of at least twelve windows, or of as many as last two seconds, but six. How many
    batches make a window, or later a round, is told by the median of the latest six windows, so
    that one that was held up does not shorten it.
    """
    started = clock()
    step(0)
    synchronize()
    (first_batch_s,) = ranks.all_reduce_max(clock() - started)
    batch_s = elapsed_s = first_batch_s
    batches, needed, steady = 1, WINDOWS, False
    windows: list[float] = []
    while not windows or (not steady and elapsed_s < settings.warmup_limit_s):
        count = batches_for(settings.round_s, batch_s)
        own_s = _timed(step, synchronize, clock, batches, count)
        window_s, elapsed_s = ranks.all_reduce_max(own_s, clock() - started)
        batches += count
        windows.append(window_s)
        batch_s = statistics.median_low(windows[-LEAST_WINDOWS:])
        needed = _enough(count * window_s)
        steady = agreed(ranks, trends.steady(windows, minimum=needed))
    return Warmup(
        seconds=elapsed_s,
        batches=batches,
        windows=len(windows),
        windows_needed=needed,
        steady=steady,
        batch_s=batch_s,
        first_batch_s=first_batch_s,
    )


def measure_rounds(
    step: Step,
    synchronize: Callable[[], None],
    settings: Measuring,
    clock: Clock,
    batch_s: float,
    *,
    ranks: Ranks = ALONE,
) -> Rounds:
    """Rounds of enough batches to last `round_s`, until the interval of the median is within
    `interval` of it, or until `time_limit_s` has passed.

    The rule looks at growing numbers of rounds, not after each, so that looking does not bias it.
    At least three rounds are taken whatever the limit. `batch_s` is the same for all ranks.
    """
    count = batches_for(settings.round_s, batch_s)
    looks = blocks.checkpoints()
    look = next(looks)
    rounds: list[float] = []
    own: list[float] = []
    done = 0
    with collection_held():
        ranks.barrier()
        started = clock()
        while True:
            own.append(_timed(step, synchronize, clock, done, count))
            slowest_s, elapsed_s = ranks.all_reduce_max(own[-1], clock() - started)
            rounds.append(slowest_s)
            done += count
            if len(rounds) >= look:
                look = next(looks)
                assessment = blocks.assess(rounds)
                if agreed(ranks, _within(assessment, settings.interval)):
                    stop_reason = "interval"
                    break
            if len(rounds) >= MINIMUM_ROUNDS and elapsed_s >= settings.time_limit_s:
                assessment, stop_reason = blocks.assess(rounds), "time-limit"
                break
        total_s = clock() - started
    return Rounds(
        seconds_per_batch=tuple(rounds),
        own_seconds_per_batch=tuple(own),
        batches_per_round=count,
        assessment=assessment,
        stop_reason=stop_reason,
        between_s=max(0.0, total_s - count * sum(rounds)) / len(rounds),
    )


def measure_singly(
    step: Step,
    synchronize: Callable[[], None],
    settings: Measuring,
    clock: Clock,
    *,
    batch_s: float = 0.0,
    ranks: Ranks = ALONE,
) -> tuple[float, ...]:
    """Seconds of single batches, each synchronised before its clock is read, until there are
    `latency_samples` of them or `time_limit_s` has passed; at least one.

    Ranks take the same number of samples, with a barrier about once a second, by `batch_s`.
    """
    samples: list[float] = []
    elapsed_s = 0.0
    with collection_held():
        ranks.barrier()
        started = clock()
        while True:
            left_s = min(STRETCH_S, settings.time_limit_s - elapsed_s)
            stretch = 1 if ranks.size == 1 else batches_for(left_s, batch_s)
            for _ in range(min(stretch, max(1, settings.latency_samples - len(samples)))):
                samples.append(_timed(step, synchronize, clock, len(samples), 1))
            (elapsed_s,) = ranks.all_reduce_max(clock() - started)
            if len(samples) >= settings.latency_samples or elapsed_s >= settings.time_limit_s:
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


def _enough(window_s: float) -> int:
    """The windows on which a steady state is judged."""
    if window_s * WINDOWS <= WINDOWS_S:
        return WINDOWS
    return max(LEAST_WINDOWS, math.ceil(WINDOWS_S / window_s))


def expected_before_s(settings: Measuring, batch_s: float) -> float:
    """What passes before a measurement if a batch takes so long: its outputs are checked, the first
    batch, and warm-up, which ends at its limit unless its windows are longer."""
    window_s = max(settings.round_s, batch_s)
    return 2 * batch_s + min(WINDOWS * window_s, max(settings.warmup_limit_s, window_s))


def batches_for(seconds: float, batch_s: float) -> int:
    return max(1, math.ceil(seconds / batch_s)) if batch_s > 0 else 1


def _within(assessment: blocks.Assessment, interval: float) -> bool:
    half_width = assessment.interval.half_width
    return assessment.independent and half_width is not None and half_width <= interval
