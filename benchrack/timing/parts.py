"""What a batch is made of, timed part by part: copied in, computed, copied out; and whether
`synchronize` waited for it. The parts are few batches beside a measurement, not the measurement."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchrack.timing.rounds import Clock, collection_held
from benchrack.vocabulary.backends import Session

if TYPE_CHECKING:
    import numpy as np

BATCHES, LEAST_BATCHES, LIMIT_S = 25, 3, 1.0
# A batch that leaves its work to whoever fetches it shows with the first output; with several, an
# honest session's hiccup weighs less. Their outputs are all kept: logits, a few kilobytes each.
OUTPUTS, LONGEST_TRY_S = 16, 0.1
TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Medians over batches that were synchronised after each part, in seconds."""

    copy_in_s: float
    compute_s: float
    copy_out_s: float


def parts_of(session: Session, batches: Sequence[np.ndarray], clock: Clock) -> Parts:
    """Time the parts of batches, float32 (N, C, H, W) on the host: 25 of them, fewer where they
    take more than a second, at least 3."""
    laps: list[tuple[float, float, float]] = []
    started = clock()
    with collection_held():
        while len(laps) < LEAST_BATCHES or (len(laps) < BATCHES and clock() - started < LIMIT_S):
            images = batches[len(laps) % len(batches)]
            session.synchronize()
            begun = clock()
            placed = session.place(images)
            session.synchronize()
            copied = clock()
            output = session.run(placed)
            session.synchronize()
            computed = clock()
            session.fetch(output)
            laps.append((copied - begun, computed - copied, clock() - computed))
    copy_in_s, compute_s, copy_out_s = (statistics.median(part) for part in zip(*laps, strict=True))
    return Parts(copy_in_s=copy_in_s, compute_s=compute_s, copy_out_s=copy_out_s)


def unsynchronised_share(
    session: Session, placed: Sequence[Any], batch_s: float, enough: float, clock: Clock
) -> float:
    """The share (0 to 1) of some batches' time that passed after `synchronize` had returned.

    Some batches, of `batch_s` each, are run back to back and synchronised, and their outputs
    fetched twice. If everything was done, both fetches only copy, and take the same; what the first
    takes longer was still to be waited for, or computed. A first fetch can be held up by chance: of
    three tries the least counts, and a share of up to `enough` ends them.
    """
    count = OUTPUTS if batch_s * OUTPUTS < LONGEST_TRY_S else max(1, int(LONGEST_TRY_S / batch_s))
    share = 1.0
    with collection_held():
        for _ in range(TRIES):
            session.synchronize()
            started = clock()
            outputs = [session.run(placed[index % len(placed)]) for index in range(count)]
            session.synchronize()
            synchronised = clock()
            for output in outputs:
                session.fetch(output)
            fetched = clock()
            for output in outputs:
                session.fetch(output)
            copies_s = clock() - fetched
            left_s = max(0.0, fetched - synchronised - copies_s)
            all_s = fetched - started - copies_s
            share = min(share, left_s / all_s if all_s > 0 else 0.0)
            if share <= enough:
                break
    return share
