"""Batches through which a measurement rotates, and what one step of it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchrack.vocabulary.backends import Session

if TYPE_CHECKING:
    import numpy as np


@dataclass(slots=True)
class Rotation:
    """Runs batches of a session one after another: on the device only, or with the copies there
    and back (`transfer`). `steps` counts the batches."""

    session: Session
    batches: list[Any]
    batch_size: int
    transfer: bool
    steps: int = 0

    def step(self, index: int) -> Any:
        """Start the batch of this number; with copies, it is done on return."""
        self.steps += 1
        batch = self.batches[index % len(self.batches)]
        if not self.transfer:
            return self.session.run(batch)
        return self.session.fetch(self.session.run(self.session.place(batch)))


def rotation(
    pool: np.ndarray, session: Session, batch_size: int, *, seed: int, transfer: bool
) -> Rotation:
    """Batches out of distinct inputs, float32 (N, C, H, W), on the device already unless the copies
    are to be measured."""
    batches = batches_of(pool, batch_size, seed)  # of large ones not all are on the host at once
    return Rotation(
        session=session,
        batches=list(batches) if transfer else [session.place(images) for images in batches],
        batch_size=batch_size,
        transfer=transfer,
    )


def batches_of(pool: np.ndarray, batch_size: int, seed: int) -> Iterator[np.ndarray]:
    """Batches that use each distinct input equally often; at least two, so that none repeats at
    once. Inputs recur within a batch only where it is larger than the whole pool."""
    import numpy as np

    count = max(2, len(pool) // batch_size)
    order = np.random.default_rng(seed).permutation(len(pool))
    for index in range(count):
        first = index * batch_size
        yield pool[order[np.arange(first, first + batch_size) % len(pool)]]
