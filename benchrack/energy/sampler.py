"""Samples meters at their own periods, in a thread that must not be seen in what runs beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchrack.vocabulary.meters import OpenMeter, WaitableClock

# Of one core, for all samples; waking the thread costs about as much again, and half a percent is
# the limit for both (benchmarks/sampler_cost.py). Where a sample costs more than that allows, the
# period becomes longer, and the reading says how long it was.
CORE_SHARE = 0.0025
# The first sample is often the dearest; what it cost is spread over some that cost nothing.
FREE_SAMPLES = 5
SHORTEST_PERIOD_S = 0.05
GOLDEN_RATIO = 0.6180339887498949


@dataclass(slots=True)
class _Turn:
    """When a meter is sampled next, and what its samples have cost so far."""

    meter: OpenMeter
    due_s: float
    core_share: float
    samples: int = 0
    cpu_s: float = 0.0
    fault: str | None = None

    @property
    def period_s(self) -> float:
        cost_s = self.cpu_s / (self.samples + FREE_SAMPLES)
        return max(self.meter.period_s, SHORTEST_PERIOD_S, cost_s / self.core_share)

    def take(self, clock: WaitableClock) -> None:
        if self.fault is not None:
            self.due_s = clock() + self.meter.period_s
            return
        before_s = time.thread_time()
        try:
            self.meter.sample()
        except Exception as error:  # whatever a driver does, the measurement goes on
            self.fault = f"{self.meter.name} failed: {type(error).__name__}: {error}"
        self.cpu_s += time.thread_time() - before_s
        self.samples += 1
        # Spread between half and one and a half of the period, so that a load which repeats at
        # the sampling rate can't hide from it.
        spread = 0.5 + self.samples * GOLDEN_RATIO % 1.0
        self.due_s = clock() + self.period_s * spread


class Sampler:
    """Samples in a thread (`start`, `stop`), or whenever `sample_due` is called.

    A meter whose sampling raises is left alone from then on; `faults` says why, by its name.
    """

    def __init__(self, meters: Sequence[OpenMeter], clock: WaitableClock) -> None:
        self._clock = clock
        share = CORE_SHARE / max(1, len(meters))
        self._turns = [_Turn(meter, due_s=clock(), core_share=share) for meter in meters]
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def faults(self) -> dict[str, str]:
        return {turn.meter.name: turn.fault for turn in self._turns if turn.fault is not None}

    @property
    def samples(self) -> int:
        return sum(turn.samples for turn in self._turns)

    @property
    def cpu_s(self) -> float:
        """CPU time of all samples, in seconds."""
        return sum(turn.cpu_s for turn in self._turns)

    def sample_all(self) -> None:
        """Sample every meter now, as at the edges of a window."""
        for turn in self._turns:
            turn.take(self._clock)

    def sample_due(self) -> float:
        """Sample the meters whose time has come. Seconds until the next is due."""
        for turn in self._turns:
            if self._clock() >= turn.due_s:
                turn.take(self._clock)
        return max(0.0, min(turn.due_s for turn in self._turns) - self._clock())

    def start(self) -> None:
        if self._turns:
            self._thread = threading.Thread(target=self._run, name="benchrack-sampler", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(self.sample_due()):
            pass

    def stop(self) -> None:
        """Returns when the thread has ended; it takes no sample after that."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
