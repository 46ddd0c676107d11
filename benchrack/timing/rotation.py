"""Batches through which a measurement rotates, and what one step of it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchrack.scenarios.bench import Bench
from benchrack.vocabulary.backends import Session
from benchrack.vocabulary.cases import Case

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


def rotation(bench: Bench, case: Case, session: Session) -> Rotation:
    """The case's batches, on the device already unless the copies are to be measured."""
    asked = bench.settings.transfer
    transfer = case.scenario == "latency" if asked == "auto" else asked == "include"
    batches = batches_of(bench, case)  # of large ones not all are on the host at once
    return Rotation(
        session=session,
        batches=list(batches) if transfer else [session.place(images) for images in batches],
        batch_size=case.batch_size,
        transfer=transfer,
    )


def batches_of(bench: Bench, case: Case) -> Iterator[np.ndarray]:
    """Batches that use each distinct input equally often; at least two, so that none repeats at
    once. Inputs recur within a batch only where it is larger than the whole pool."""
    import numpy as np

    pool = bench.distinct_inputs(case)
    count = max(2, len(pool) // case.batch_size)
    order = np.random.default_rng(bench.settings.seed).permutation(len(pool))
    for index in range(count):
        first = index * case.batch_size
        yield pool[order[np.arange(first, first + case.batch_size) % len(pool)]]
