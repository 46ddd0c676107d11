"""What a case of each scenario measures on a session that is ready."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from benchrack.data import reference
from benchrack.scenarios import accuracy, observation
from benchrack.scenarios.bench import Bench
from benchrack.scenarios.footprint import follow, remember
from benchrack.statistics.blocks import percentile
from benchrack.statistics.interval import Interval
from benchrack.timing.parts import parts_of, unsynchronised_share
from benchrack.timing.rotation import Rotation, batches_of, rotation
from benchrack.timing.rounds import Rounds, Warmup, measure_rounds, measure_singly, warm_up
from benchrack.vocabulary import results
from benchrack.vocabulary.backends import Session
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.findings import Findings

DISTINCT_PARTS = 8  # batches through which the timing of a batch's parts rotates
# A two-sided 95 % interval needs 6, 36 and 368 samples by calculation; with these a single hiccup
# does not move the interval of the percentile far.
PERCENTILE_SAMPLES = {0.50: 8, 0.90: 46, 0.99: 482}


def measure(bench: Bench, case: Case, session: Session) -> Findings:
    """What the case's scenario measures. Raises OutOfMemoryError, DatasetError, CacheError, and
    whatever the session raises."""
    return SCENARIOS[case.scenario](bench, case, session)


def throughput(bench: Bench, case: Case, session: Session) -> Findings:
    """Rounds of batches back to back, with meters and the host watched beside them."""
    expected = reference.expected(bench, case, session)  # its own session is not this one's memory
    follower = follow(bench, case, session)
    batches = rotation(bench, case, session)
    bench.progress("warming up")
    warmup = warm_up(
        batches.step, session.synchronize, bench.settings, bench.clock, peers=bench.peers
    )
    remember(bench, case, follower, batches)
    footprint = follower.found()
    bench.progress("measuring")
    with observation.host_watched(bench, session) as watch, bench.meters.window() as metered:
        before = batches.steps
        rounds = measure_rounds(
            batches.step,
            session.synchronize,
            bench.settings,
            bench.clock,
            warmup.batch_s,
            peers=bench.peers,
        )
        images = (batches.steps - before) * case.batch_size
    check = reference.check(bench, case, session, expected)
    unsynchronised = _unsynchronised(bench, batches, warmup)
    power = observation.power(bench, batches, warmup.batch_s, metered, images)
    return Findings(
        seconds_per_batch=rounds.seconds_per_batch,
        own_seconds_per_batch=rounds.own_seconds_per_batch,
        between_s=rounds.between_s,
        first_batch_s=warmup.first_batch_s,
        images_per_s=_rate(bench.peers.size * case.batch_size, rounds.assessment.interval),
        steadiness=_steadiness(batches, warmup, unsynchronised, rounds),
        output_check=check,
        power=power,
        surroundings=watch.found,
        footprint=footprint,
    )


def latency(bench: Bench, case: Case, session: Session) -> Findings:
    """Single batches, each synchronised, copies included unless told otherwise."""
    expected = reference.expected(bench, case, session)  # its own session is not this one's memory
    follower = follow(bench, case, session)
    batches = rotation(bench, case, session)
    bench.progress("warming up")
    warmup = warm_up(
        batches.step, session.synchronize, bench.settings, bench.clock, peers=bench.peers
    )
    remember(bench, case, follower, batches)
    footprint = follower.found()
    bench.progress("measuring")
    with observation.host_watched(bench, session) as watch:
        samples = measure_singly(
            batches.step,
            session.synchronize,
            bench.settings,
            bench.clock,
            batch_s=warmup.batch_s,
            peers=bench.peers,
        )
    check = reference.check(bench, case, session, expected)
    unsynchronised = _unsynchronised(bench, batches, warmup)
    copies = _copies(bench, case, session)
    # Metered apart: a meter that reads ten times a second would be in the 99th percentile.
    power = observation.power(bench, batches, warmup.batch_s)
    return Findings(
        seconds_per_batch=samples,
        own_seconds_per_batch=samples,
        first_batch_s=warmup.first_batch_s,
        latency=results.Latency(
            samples=len(samples),
            p50=_percentile(samples, 0.50),
            p90=_percentile(samples, 0.90),
            p99=_percentile(samples, 0.99),
            **copies,
        ),
        steadiness=_steadiness(batches, warmup, unsynchronised),
        output_check=check,
        power=power,
        surroundings=watch.found,
        footprint=footprint,
    )


SCENARIOS: dict[str, Callable[[Bench, Case, Session], Findings]] = {
    "throughput": throughput,
    "latency": latency,
    "accuracy": accuracy.accuracy,
}


def _rate(images: int, seconds: Interval) -> Interval:
    """Images per second from an interval of seconds per batch."""
    return Interval(
        value=images / seconds.value,
        low=None if seconds.high is None else images / seconds.high,
        high=None if seconds.low is None else images / seconds.low,
    )


def _percentile(samples: Sequence[float], q: float) -> Interval | None:
    """A percentile in milliseconds, or None where the samples are too few to tell, or would be too
    few if they were independent. A median is told without an interval too."""
    if len(samples) < PERCENTILE_SAMPLES[q]:
        return None
    interval = percentile(samples, q)
    if interval.low is None and q != 0.5:
        return None
    return Interval(
        value=interval.value * 1e3,
        low=None if interval.low is None else interval.low * 1e3,
        high=None if interval.high is None else interval.high * 1e3,
    )


def _copies(bench: Bench, case: Case, session: Session) -> dict[str, float]:
    """The parts of a batch, in milliseconds; nothing on the CPU, where no copy leaves the host."""
    if bench.device.kind == "cpu":
        return {}
    some = list(itertools.islice(batches_of(bench, case), DISTINCT_PARTS))
    parts = parts_of(session, some, bench.clock)
    return {
        "copy_in_ms": parts.copy_in_s * 1e3,
        "compute_ms": parts.compute_s * 1e3,
        "copy_out_ms": parts.copy_out_s * 1e3,
    }


def _steadiness(
    batches: Rotation,
    warmup: Warmup,
    unsynchronised: float | None,
    rounds: Rounds | None = None,
) -> results.Steadiness:
    assessment = rounds.assessment if rounds else None
    return results.Steadiness(
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
        unsynchronised_share=unsynchronised,
    )


def _unsynchronised(bench: Bench, batches: Rotation, warmup: Warmup) -> float | None:
    """What `synchronize` left undone; None where every output is fetched inside the time."""
    if batches.transfer:
        return None
    enough = bench.settings.limit_unsynchronised
    return unsynchronised_share(
        batches.session, batches.batches, warmup.batch_s, enough, bench.clock
    )
