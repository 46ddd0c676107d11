"""Accuracy: every measured picture once, against its label and against FP32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchrack.data import inputs, reference
from benchrack.data.comparison import assess_accuracy
from benchrack.errors import DatasetError
from benchrack.scenarios import observation
from benchrack.scenarios.bench import Bench
from benchrack.vocabulary.backends import Session
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.findings import Findings

if TYPE_CHECKING:
    import numpy as np


def accuracy(bench: Bench, case: Case, session: Session) -> Findings:
    """Every measured picture once, compared with its label and with FP32 of the same model.

    Host and cards are watched meanwhile; energy is told only if that took long enough for a sensor.
    """
    import numpy as np

    bench.progress("measuring")
    labels: list[int | None] = []
    unreadable: list[str] = []
    seconds: list[float] = []
    logits = []
    with observation.host_watched(bench, session) as watch, bench.meters.window() as metered:
        for batch in _measured_batches(bench, case):
            labels += batch.labels
            unreadable += batch.unreadable
            if not len(batch.images):
                continue
            filled = np.resize(batch.images, (case.batch_size, *batch.images.shape[1:]))
            started = bench.clock()
            output = session.fetch(session.run(session.place(filled)))
            seconds.append(bench.clock() - started)
            logits.append(output[: len(batch.images)])
    if not logits:
        raise DatasetError(f"{bench.split(case).name}: none of its pictures can be read")
    outputs = np.concatenate(logits)
    expected = _reference_logits(bench, case, session, outputs)
    if len(expected) != len(outputs):
        raise DatasetError(
            f"{len(outputs)} pictures of {bench.split(case).name} could be read, but "
            f"{len(expected)} when the FP32 reference was made: the files changed in between. "
            "Clear the reference with `benchrack cache clear reference`"
        )
    return Findings(
        seconds_per_batch=tuple(seconds),
        accuracy=assess_accuracy(
            outputs,
            np.asarray(expected),
            labels,
            trained=session.loaded.trained,
            unreadable=tuple(unreadable),
        ),
        power=observation.conditions(bench, metered),
        surroundings=watch.found,
    )


def _measured_batches(bench: Bench, case: Case) -> Iterator[inputs.Batch]:
    measured = bench.split(case).measured
    limit = bench.settings.evaluation_images or len(measured)
    model = bench.registry.model(case.model)
    return inputs.iterate_batches(measured[:limit], model, case.batch_size)


def _reference_logits(
    bench: Bench, case: Case, session: Session, outputs: np.ndarray
) -> np.ndarray:
    def make() -> np.ndarray:
        if case.backend == bench.settings.reference:
            return outputs
        bench.progress("measuring the FP32 reference")
        batches = _measured_batches(bench, case)
        return reference.run(bench, case, lambda: (b.images for b in batches if len(b.images)))

    limit = bench.settings.evaluation_images
    data = f"{bench.split(case).digest}:{limit or 'all'}"
    return reference.cached(bench, case, session.loaded, data, make)
