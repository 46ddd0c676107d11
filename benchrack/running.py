"""One case from its preparation to its verdict."""

from __future__ import annotations

import dataclasses
from contextlib import closing

from benchrack import scenarios
from benchrack.bench import Bench
from benchrack.errors import OutOfMemoryError, UnsupportedError
from benchrack.results import Measurement, Preparation
from benchrack.types import Case, Session
from benchrack.validity import judge, share_of_peak


def run_case(bench: Bench, case: Case) -> Measurement:
    """Prepare, measure and judge one case on the bench's device.

    Raises UnsupportedError (also for device counts above one, which need a world),
    OutOfMemoryError, DatasetError, WeightsError or CacheError; whatever else a backend raises
    passes through.
    """
    if case.device_count > 1:
        raise UnsupportedError(
            f"{case.device_count} devices were asked for; this version measures one at a time"
        )
    if reason := bench.unsupported(case):
        raise UnsupportedError(reason)
    bench.progress("preparing")
    started = bench.clock()
    try:
        with closing(bench.prepare(case)) as session:
            prepare_s = bench.clock() - started
            found = scenarios.measure(bench, case, session)
            prepared = _prepared(bench, case, session, prepare_s, found.first_batch_s)
    except MemoryError as error:
        raise OutOfMemoryError(f"the host ran out of memory: {error}") from error
    measured = Measurement(
        case=case,
        engine=session.engine,
        preparation=prepared,
        seconds_per_batch=found.seconds_per_batch,
        images_per_s=found.images_per_s,
        steadiness=found.steadiness,
        latency=found.latency,
        accuracy=found.accuracy,
        output_check=found.output_check,
        power=found.power,
        surroundings=found.surroundings,
    )
    return dataclasses.replace(
        measured,
        share_of_peak=share_of_peak(measured, bench.card),
        reasons=judge(measured, bench.settings, bench.card),
    )


def _prepared(
    bench: Bench, case: Case, session: Session, prepare_s: float, first_batch_s: float | None
) -> Preparation:
    split, loaded = bench.split(case), session.loaded
    return Preparation(
        prepare_s=prepare_s,
        asked_precision=bench.registry.backend(case.backend).precision,
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
