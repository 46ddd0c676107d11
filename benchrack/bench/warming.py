"""What throughput and latency begin and end with: a session in its steady state, whose memory was
followed, and whose outputs are checked against FP32's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchrack.bench.bench import Bench
from benchrack.bench.footprint import follow
from benchrack.data import reference
from benchrack.timing.parts import unsynchronised_share
from benchrack.timing.rotation import Rotation, rotation
from benchrack.timing.rounds import Rounds, Warmup, warm_up
from benchrack.vocabulary.backends import Session
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.results import Footprint, OutputCheck, Steadiness

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    """A session that was warmed up with these batches, and what FP32 gives for `images`."""

    session: Session
    batches: Rotation
    warmup: Warmup
    footprint: Footprint | None
    images: np.ndarray
    expected: np.ndarray


def warmed_up(bench: Bench, case: Case, session: Session, *, copies: bool) -> Warm:
    """Bring a case's session into its steady state. `copies` says whether those to the device and
    back are measured, unless the settings do. Raises OutOfMemoryError where a batch won't fit."""
    settings, pool = bench.settings.measure, bench.data.distinct_inputs(case)
    images = reference.checked(pool)
    bench.progress("checking outputs")
    # The reference's own session comes first: its memory is not this one's.
    expected = bench.reference(case).of_inputs(session.loaded, images)
    follower = follow(bench.memory, case, session, pool, bench.progress)
    batches = rotation(
        pool,
        session,
        case.batch_size,
        seed=settings.seed,
        transfer=copies if settings.transfer == "auto" else settings.transfer == "include",
    )
    bench.progress("warming up")
    warmup = warm_up(batches.step, session.synchronize, settings, bench.clock, ranks=bench.ranks)
    on_device = not batches.transfer or bench.device.kind == "cpu"
    bench.memory.remember(case, follower, pool[0].nbytes, len(batches.batches) if on_device else 2)
    return Warm(
        session=session,
        batches=batches,
        warmup=warmup,
        footprint=follower.found(),
        images=images,
        expected=expected,
    )


def check(bench: Bench, case: Case, warm: Warm) -> OutputCheck:
    """The outputs of a few images against FP32's, after the measurement."""
    name = bench.settings.measure.reference
    return reference.check(warm.session, warm.images, warm.expected, case.batch_size, name)


def steadiness(bench: Bench, warm: Warm, rounds: Rounds | None = None) -> Steadiness:
    """How the rounds, or single batches, were taken; some more are run where nothing fetched the
    outputs, to see whether `synchronize` waits for them."""
    batches, warmup = warm.batches, warm.warmup
    assessment = rounds.assessment if rounds else None
    return Steadiness(
        transfer="include" if batches.transfer else "exclude",
        distinct_batches=len(batches.batches),
        warmup_s=warmup.seconds,
        warmup_batches=warmup.batches,
        warmup_windows=warmup.windows,
        warmup_windows_needed=warmup.windows_needed,
        warmup_steady=warmup.steady,
        rounds=len(rounds.seconds_per_batch) if rounds else None,
        batches_per_round=rounds.batches_per_round if rounds else None,
        blocks=assessment.blocks if assessment else None,
        independent=assessment.independent if assessment else None,
        autocorrelation=assessment.autocorrelation if assessment else None,
        coefficient_of_variation=assessment.coefficient_of_variation if assessment else None,
        stop_reason=rounds.stop_reason if rounds else None,
        unsynchronised_share=None
        if batches.transfer
        else unsynchronised_share(
            warm.session,
            batches.batches,
            warmup.batch_s,
            bench.settings.limits.unsynchronised,
            bench.clock,
        ),
    )
