"""What a case takes of memory: predicted before it is tried, followed while it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchrack.machine import memory
from benchrack.machine.gauges import Gauge
from benchrack.machine.memory import GIB, Prediction
from benchrack.scenarios.bench import Bench
from benchrack.timing.rotation import Rotation
from benchrack.vocabulary import results
from benchrack.vocabulary.backends import Session
from benchrack.vocabulary.cases import Case

if TYPE_CHECKING:
    import numpy as np


@dataclass(slots=True)
class Follower:
    """Follows one case's memory from before its first batch; `before` and `free` are bytes then.

    Without a gauge it follows nothing.
    """

    gauge: Gauge | None
    before: int = 0
    free: int = 0
    prediction: Prediction | None = None

    @property
    def grown(self) -> int:
        """Bytes at the peak beyond those before."""
        return max(0, self.gauge.peak() - self.before) if self.gauge else 0

    def found(self) -> results.Footprint | None:
        """What the case has taken up to now."""
        if self.gauge is None:
            return None
        predicted = self.prediction
        return results.Footprint(
            peak_gib=self.gauge.peak() / GIB,
            batches_gib=self.grown / GIB,
            free_gib=self.free / GIB,
            predicted_gib=predicted.needed_bytes / GIB if predicted else None,
            predicted_from=predicted.batches if predicted else (),
        )


def follow(bench: Bench, case: Case, session: Session) -> Follower:
    """Follow a case whose session is ready, and run no batch of its size before it is likely to
    fit.

    A large batch is predicted from smaller ones: those that this process ran before, or else some
    that are tried here. Raises OutOfMemoryError where it can't fit.
    """
    gauge = bench.gauge
    if gauge is None:
        return Follower(gauge=None)
    pool = bench.distinct_inputs(case)  # made once, and not for this case alone
    gauge.reset_peak()
    follower = Follower(gauge=gauge, before=gauge.used(), free=gauge.free())
    known = _known(bench, case)
    if case.batch_size <= memory.SMALL_BATCH or case.batch_size in known:
        return follower
    bench.progress("predicting memory")
    for size in memory.probes(known, case.batch_size):
        _try(session, pool, size)
        known[size] = follower.grown
    follower.prediction = memory.predict(known, case.batch_size)
    if follower.prediction is not None:
        memory.require_room(
            follower.prediction, case.batch_size, follower.free, gauge.reserve, gauge.place
        )
    return follower


def remember(bench: Bench, case: Case, follower: Follower, batches: Rotation) -> None:
    """Keep what a batch of the case's size took with a second one beside it, as the largest have:
    so larger ones can be predicted from it. Small batches rotate through many more."""
    if follower.gauge is None:
        return
    on_device = not batches.transfer or bench.device.kind == "cpu"
    surplus = len(batches.batches) - 2 if on_device else 0
    each = 4 * math.prod(bench.registry.model(case.model).input_shape)
    grown = follower.grown - surplus * case.batch_size * each
    _known(bench, case)[case.batch_size] = max(0, grown)


def _known(bench: Bench, case: Case) -> dict[int, int]:
    """Bytes by batch size, of all cases whose batches take the same."""
    kind = (case.model, case.backend, case.device_count, case.weights)
    return bench.footprints.setdefault(kind, {})


def _try(session: Session, pool: np.ndarray, size: int) -> None:
    """Run one batch as a measurement does, with a second one beside it."""
    import numpy as np

    images = pool[np.arange(size) % len(pool)]
    placed = [session.place(images) for _ in range(2)]
    session.run(placed[0])
    session.synchronize()
