"""One case from its preparation to its measurement: prepare, check outputs, warm up, measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchrack import inputs, measurement, reference, results
from benchrack.bench import Bench
from benchrack.comparison import assess_accuracy, check_outputs
from benchrack.errors import DatasetError, OutOfMemoryError, UnsupportedError
from benchrack.results import Interval, Measurement
from benchrack.statistics import quantile_interval
from benchrack.types import Case, Session

if TYPE_CHECKING:
    import numpy as np

CHECKED_PICTURES = 8
# A two-sided 95 % interval needs 6, 36 and 368 samples by calculation; with these its upper end is
# not the largest sample, which one hiccup would move.
PERCENTILE_SAMPLES = {0.50: 8, 0.90: 46, 0.99: 482}


def run_case(bench: Bench, case: Case) -> Measurement:
    """Measure one case on the bench's device.

    Raises UnsupportedError (also for device counts above one, which need a world),
    OutOfMemoryError, DatasetError, WeightsError or CacheError; whatever else a backend raises
    passes through.
    """
    if case.device_count > 1:
        raise UnsupportedError(
            f"{case.device_count} devices were asked for; this version measures one at a time"
        )
    if reason := bench.registry.backend(case.backend).unsupported(bench.device):
        raise UnsupportedError(reason)
    bench.progress("preparing")
    started = bench.clock()
    try:
        with closing(bench.prepare(case)) as session:
            prepare_s = bench.clock() - started
            return MEASURES[case.scenario](bench, case, session, prepare_s)
    except MemoryError as error:
        raise OutOfMemoryError(f"the host ran out of memory: {error}") from error


@dataclass(slots=True)
class Runner:
    """Runs batches of a session: on the device only, or with the copies to it and back."""

    session: Session
    batches: list[Any]
    transfer: bool

    def step(self, index: int) -> Any:
        batch = self.batches[index % len(self.batches)]
        if not self.transfer:
            return self.session.run(batch)
        return self.session.fetch(self.session.run(self.session.place(batch)))


def _runner(bench: Bench, case: Case, session: Session) -> Runner:
    asked = bench.settings.transfer
    transfer = case.scenario == "latency" if asked == "auto" else asked == "include"
    batches = list(_rotation(bench, case))
    return Runner(
        session=session,
        batches=batches if transfer else [session.place(images) for images in batches],
        transfer=transfer,
    )


def _rotation(bench: Bench, case: Case) -> Iterator[np.ndarray]:
    """Batches that use each distinct input equally often; at least two, so that none repeats at
    once. Inputs recur within a batch only where it is larger than the whole pool."""
    import numpy as np

    pool = bench.distinct_inputs(case)
    count = max(2, len(pool) // case.batch_size)
    order = np.random.default_rng(bench.settings.seed).permutation(len(pool))
    for index in range(count):
        first = index * case.batch_size
        yield pool[order[np.arange(first, first + case.batch_size) % len(pool)]]


def _checked(bench: Bench, case: Case, session: Session) -> results.OutputCheck:
    """The session's outputs for a few pictures against FP32 of the same model."""
    import numpy as np

    pictures = bench.distinct_inputs(case)[:CHECKED_PICTURES]
    expected = reference.of_inputs(bench, case, session.loaded, pictures)
    filled = np.resize(pictures, (_rounded_up(len(pictures), case.batch_size), *pictures.shape[1:]))
    got = reference.outputs(session, _batches_of(filled, case.batch_size))[: len(pictures)]
    return check_outputs(got, np.asarray(expected), bench.settings.reference)


def _batches_of(images: np.ndarray, size: int) -> Iterator[np.ndarray]:
    for start in range(0, len(images), size):
        yield images[start : start + size]


def _rounded_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def _throughput(bench: Bench, case: Case, session: Session, prepare_s: float) -> Measurement:
    bench.progress("checking outputs")
    check = _checked(bench, case, session)
    runner = _runner(bench, case, session)
    bench.progress("warming up")
    warmup = measurement.warm_up(runner.step, session.synchronize, bench.settings, bench.clock)
    bench.progress("measuring")
    rounds = measurement.measure_rounds(
        runner.step, session.synchronize, bench.settings, bench.clock, warmup.batch_s
    )
    return Measurement(
        case=case,
        engine=session.engine,
        preparation=_prepared(bench, case, session, prepare_s, warmup.first_batch_s),
        seconds_per_batch=rounds.seconds_per_batch,
        images_per_s=_rate(case.batch_size, rounds.assessment.interval),
        steadiness=_steadiness(runner, warmup, rounds),
        output_check=check,
    )


def _rate(images: int, seconds: Interval) -> Interval:
    """Images per second from an interval of seconds per batch."""
    return Interval(
        value=images / seconds.value,
        low=None if seconds.high is None else images / seconds.high,
        high=None if seconds.low is None else images / seconds.low,
    )


def _latency(bench: Bench, case: Case, session: Session, prepare_s: float) -> Measurement:
    bench.progress("checking outputs")
    check = _checked(bench, case, session)
    runner = _runner(bench, case, session)
    bench.progress("warming up")
    warmup = measurement.warm_up(runner.step, session.synchronize, bench.settings, bench.clock)
    bench.progress("measuring")
    samples = measurement.measure_singly(
        runner.step, session.synchronize, bench.settings, bench.clock
    )
    return Measurement(
        case=case,
        engine=session.engine,
        preparation=_prepared(bench, case, session, prepare_s, warmup.first_batch_s),
        seconds_per_batch=samples,
        latency=results.Latency(
            samples=len(samples),
            p50=_percentile(samples, 0.50),
            p90=_percentile(samples, 0.90),
            p99=_percentile(samples, 0.99),
        ),
        steadiness=_steadiness(runner, warmup, None),
        output_check=check,
    )


def _percentile(samples: Sequence[float], q: float) -> Interval | None:
    """A percentile in milliseconds, or None where the samples are too few to tell."""
    interval = quantile_interval(samples, q) if len(samples) >= PERCENTILE_SAMPLES[q] else None
    if interval is None:
        return None
    return Interval(
        value=interval.value * 1e3,
        low=None if interval.low is None else interval.low * 1e3,
        high=None if interval.high is None else interval.high * 1e3,
    )


def _accuracy(bench: Bench, case: Case, session: Session, prepare_s: float) -> Measurement:
    import numpy as np

    bench.progress("measuring")
    labels: list[int | None] = []
    unreadable: list[str] = []
    seconds: list[float] = []
    logits = []
    for batch in _measured_batches(bench, case):
        labels += batch.labels
        unreadable += batch.unreadable
        filled = np.resize(batch.images, (case.batch_size, *batch.images.shape[1:]))
        started = bench.clock()
        output = session.fetch(session.run(session.place(filled)))
        seconds.append(bench.clock() - started)
        logits.append(output[: len(batch.images)])
    outputs = np.concatenate(logits)
    expected = _reference_logits(bench, case, session, outputs)
    if len(expected) != len(outputs):
        raise DatasetError(
            f"{len(outputs)} pictures of {bench.split(case).name} could be read, but "
            f"{len(expected)} when the FP32 reference was made: the files changed in between. "
            "Clear the reference with `benchrack cache clear reference`"
        )
    return Measurement(
        case=case,
        engine=session.engine,
        preparation=_prepared(bench, case, session, prepare_s, None),
        seconds_per_batch=tuple(seconds),
        accuracy=assess_accuracy(
            outputs,
            np.asarray(expected),
            labels,
            trained=session.loaded.trained,
            unreadable=tuple(unreadable),
        ),
    )


def _measured_batches(bench: Bench, case: Case) -> Iterator[inputs.Batch]:
    measured = bench.split(case).measured
    limit = bench.settings.evaluation_images or len(measured)
    model = bench.registry.model(case.model)
    for batch in inputs.iterate_batches(measured[:limit], model, case.batch_size):
        if len(batch.images):
            yield batch


def _reference_logits(
    bench: Bench, case: Case, session: Session, outputs: np.ndarray
) -> np.ndarray:
    def make() -> np.ndarray:
        if case.backend == bench.settings.reference:
            return outputs
        bench.progress("measuring the FP32 reference")
        return reference.run(
            bench, case, lambda: (batch.images for batch in _measured_batches(bench, case))
        )

    limit = bench.settings.evaluation_images
    data = f"{bench.split(case).digest}:{limit or 'all'}"
    return reference.cached(bench, case, session.loaded, data, make)


def _prepared(
    bench: Bench, case: Case, session: Session, prepare_s: float, first_batch_s: float | None
) -> results.Preparation:
    split, loaded = bench.split(case), session.loaded
    return results.Preparation(
        prepare_s=prepare_s,
        first_batch_s=first_batch_s,
        weights_used=loaded.weights,
        weights_digest=loaded.digest,
        trained=loaded.trained,
        parameters=loaded.parameters,
        multiply_accumulates=loaded.multiply_accumulates,
        data_used=split.name,
        data_digest=split.digest,
        data_images=len(split.measured),
        calibration_images=len(split.calibration),
    )


def _steadiness(
    runner: Runner, warmup: measurement.Warmup, rounds: measurement.Rounds | None
) -> results.Steadiness:
    assessment = rounds.assessment if rounds else None
    return results.Steadiness(
        transfer="include" if runner.transfer else "exclude",
        distinct_batches=len(runner.batches),
        warmup_s=warmup.seconds,
        warmup_batches=warmup.batches,
        warmup_steady=warmup.steady,
        rounds=len(rounds.seconds_per_batch) if rounds else None,
        batches_per_round=rounds.batches_per_round if rounds else None,
        blocks=assessment.blocks if assessment else None,
        independent=assessment.independent if assessment else None,
        autocorrelation=assessment.autocorrelation if assessment else None,
        coefficient_of_variation=assessment.coefficient_of_variation if assessment else None,
        stop_reason=rounds.stop_reason if rounds else None,
    )


MEASURES: dict[str, Callable[[Bench, Case, Session, float], Measurement]] = {
    "throughput": _throughput,
    "latency": _latency,
    "accuracy": _accuracy,
}
