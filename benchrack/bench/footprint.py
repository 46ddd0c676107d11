"""What a case takes of memory: predicted before it is tried, followed while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchrack.machine import memory
from benchrack.machine.gauges import Gauge, gauge_of
from benchrack.machine.memory import GIB, Prediction
from benchrack.vocabulary.backends import Session
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.results import Footprint

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

    def found(self) -> Footprint | None:
        """What the case has taken up to now."""
        if self.gauge is None:
            return None
        predicted = self.prediction
        return Footprint(
            peak_gib=self.gauge.peak() / GIB,
            batches_gib=self.grown / GIB,
            free_gib=self.free / GIB,
            predicted_gib=predicted.needed_bytes / GIB if predicted else None,
            predicted_from=predicted.batches if predicted else (),
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """The gauge of the memory that holds a device's batches, where it can be read, and the bytes
    that batches took, by size, of each kind of case."""

    gauge: Gauge | None = None
    footprints: dict[tuple[object, ...], dict[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, device: Device) -> Memory:
        return cls(gauge_of(device))

    def known(self, case: Case) -> dict[int, int]:
        """Bytes by batch size, of all cases whose batches take the same."""
        kind = (case.model, case.backend, case.device_count, case.weights)
        return self.footprints.setdefault(kind, {})

    def remember(self, case: Case, follower: Follower, image_bytes: int, batches: int) -> None:
        """Keep what a batch of the case's size took with a second one beside it, as the largest
        have: so larger ones can be predicted from it. Small ones rotate through more `batches`."""
        if follower.gauge is None:
            return
        grown = follower.grown - (batches - 2) * case.batch_size * image_bytes
        self.known(case)[case.batch_size] = max(0, grown)


def follow(
    followed: Memory,
    case: Case,
    session: Session,
    pool: np.ndarray,
    progress: Callable[[str], None],
) -> Follower:
    """Follow a case whose session is ready, and run no batch of its size before it is likely to
    fit.

    A large batch is predicted from smaller ones: those that this process ran before, or else some
    that are tried here, out of the distinct inputs. Raises OutOfMemoryError where it can't fit.
    """
    gauge = followed.gauge
    if gauge is None:
        return Follower(gauge=None)
    gauge.reset_peak()
    follower = Follower(gauge=gauge, before=gauge.used(), free=gauge.free())
    known = followed.known(case)
    if case.batch_size <= memory.SMALL_BATCH or case.batch_size in known:
        return follower
    progress("predicting memory")
    for size in memory.probes(known, case.batch_size):
        _try(session, pool, size)
        known[size] = follower.grown
    follower.prediction = memory.predict(known, case.batch_size)
    if follower.prediction is not None:
        memory.require_room(
            follower.prediction, case.batch_size, follower.free, gauge.reserve, gauge.place
        )
    return follower


def _try(session: Session, pool: np.ndarray, size: int) -> None:
    """Run one batch as a measurement does, with a second one beside it."""
    import numpy as np

    images = pool[np.arange(size) % len(pool)]
    placed = [session.place(images) for _ in range(2)]
    session.run(placed[0])
    session.synchronize()
