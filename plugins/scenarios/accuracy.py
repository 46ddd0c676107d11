"""Accuracy: how often a model is right, and what the precision costs it: every measured image
once, against its label and against FP32."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from benchrack.api import (
    BACKENDS,
    BATCH_SIZES,
    DEVICE_COUNTS,
    MODELS,
    Bench,
    Case,
    DatasetError,
    Findings,
    Interval,
    Measurement,
    Metric,
    Rule,
    Scenario,
    Session,
    Settings,
    Yardstick,
    cosines,
    hookimpl,
    observation,
    part,
    tolerance,
    wilson,
)

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Shares (0 to 1) of the measured images. top-1 and top-5 need labels and trained weights.

    `agreement` and `logit_cosine` compare with FP32 of the same model on the same images, and
    `top1_drop_points` is FP32's top-1 less this one's, in percentage points.
    """

    prefix: ClassVar[str] = "accuracy_"

    images: int
    unreadable: tuple[str, ...] = ()
    top1: Interval | None = part("top1_", default=None)
    top5: Interval | None = part("top5_", default=None)
    reference_top1: float | None = None
    top1_drop_points: float | None = None
    agreement: Interval | None = part("agreement_", default=None)
    logit_cosine: float | None = None


def measure(bench: Bench, case: Case, session: Session) -> Findings:
    """Every measured image once, compared with its label and with FP32 of the same model.

    Host and cards are watched meanwhile; energy is told only if that took long enough for a sensor.
    Raises DatasetError where no image can be read, and whatever the session raises.
    """
    import numpy as np

    bench.progress("measuring")
    labels: list[int | None] = []
    unreadable: list[str] = []
    seconds: list[float] = []
    logits = []
    with observation.host_watched(bench, session) as watch, bench.metering.window() as metered:
        for batch in bench.data.measured(case):
            labels += batch.labels
            unreadable += batch.unreadable
            if not len(batch.images):
                continue
            filled = np.resize(batch.images, (case.batch_size, *batch.images.shape[1:]))
            started = bench.clock()
            output = session.fetch(session.run(session.place(filled)))
            seconds.append(bench.clock() - started)
            logits.append(output[: len(batch.images)])
    split = bench.data.split(case)
    if not logits:
        raise DatasetError(f"{split.name}: none of its images can be read")
    outputs = np.concatenate(logits)
    expected = _reference_logits(bench, case, session, outputs)
    if len(expected) != len(outputs):
        raise DatasetError(
            f"{len(outputs)} images of {split.name} could be read, but {len(expected)} when the "
            "FP32 reference was made: the files changed in between. Clear the reference with "
            "`benchrack cache clear reference`"
        )
    return Findings(
        seconds_per_batch=tuple(seconds),
        result=assess(
            outputs,
            np.asarray(expected),
            labels,
            trained=session.loaded.trained,
            unreadable=tuple(unreadable),
        ),
        power=observation.conditions(bench, metered),
        surroundings=watch.found,
    )


def _reference_logits(
    bench: Bench, case: Case, session: Session, outputs: np.ndarray
) -> np.ndarray:
    reference = bench.reference(case)

    def make() -> np.ndarray:
        if case.backend == reference.backend.name:
            return outputs
        bench.progress("measuring the FP32 reference")
        return reference.run(b.images for b in bench.data.measured(case) if len(b.images))

    limit = bench.settings.measure.evaluation_images
    data = f"{bench.data.split(case).digest}:{limit or 'all'}"
    return reference.cached(session.loaded, data, make)


def assess(
    outputs: np.ndarray,
    reference: np.ndarray,
    labels: Sequence[int | None],
    *,
    trained: bool,
    unreadable: tuple[str, ...] = (),
) -> Accuracy:
    """Top-1 and top-5 with Wilson's intervals, and the comparison with the reference on the same
    images. Without labels or trained weights there is no top-1: it is None, not zero."""
    import numpy as np

    known = trained and None not in labels
    truth = np.array([-1 if label is None else label for label in labels])
    n = len(outputs)
    top1, top5, reference_top1 = (
        (_hits(outputs, truth, 1), _hits(outputs, truth, 5), _hits(reference, truth, 1))
        if known
        else (None, None, None)
    )
    agreeing = int((outputs.argmax(axis=1) == reference.argmax(axis=1)).sum())
    return Accuracy(
        images=n,
        unreadable=unreadable,
        top1=None if top1 is None else wilson(top1, n),
        top5=None if top5 is None else wilson(top5, n),
        reference_top1=None if reference_top1 is None else reference_top1 / n,
        top1_drop_points=(
            None if top1 is None or reference_top1 is None else 100 * (reference_top1 - top1) / n
        ),
        agreement=wilson(agreeing, n),
        logit_cosine=float(cosines(outputs, reference).mean()),
    )


def _hits(outputs: np.ndarray, truth: np.ndarray, k: int) -> int:
    """For how many rows the label is among the k largest outputs."""
    import numpy as np

    best = np.argsort(-outputs, axis=1, kind="stable")[:, :k]
    return int((best == truth[:, None]).any(axis=1).sum())


def _mismatch(m: Measurement, by: Yardstick) -> str | None:
    """Over all measured images, where no few were compared before."""
    cosine = m.result.logit_cosine if m.result else None
    _, distance = tolerance(m.preparation.asked_precision, by.limits.output_error)
    if cosine is None or 1 - cosine <= distance:
        return None
    return (
        f"1 − cosine {1 - cosine:.2g} (tolerance {distance:.2g}) against "
        f"{by.settings.measure.reference}, mean of all images"
    )


def in_words(result: Accuracy) -> str:
    """Top-1 where it is known, else the agreement with FP32."""
    if result.top1 is not None:
        return f"top-1 {100 * result.top1.value:.1f} % of {result.images}"
    if result.agreement is not None:
        return f"agreement with FP32 {100 * result.agreement.value:.1f} %"
    return f"{result.images} images"


def cost(case: Case, settings: Settings, batch_s: float, images: int) -> float:
    """Seconds: every image once."""
    return min(images, settings.measure.evaluation_images or images) * batch_s / case.batch_size


ACCURACY = Scenario(
    name="accuracy",
    question="top-1 and top-5, and agreement with FP32",
    axes=(
        MODELS,
        BACKENDS,
        dataclasses.replace(
            DEVICE_COUNTS,
            option=None,
            choices=(1,),
            because="since accuracy does not depend on the number of devices",
        ),
        dataclasses.replace(BATCH_SIZES, option=None),  # the answer does not depend on it
    ),
    part=Accuracy,
    measure=measure,
    headline=Metric(name="top1", unit="share", better="higher", title="top-1"),
    metrics=(
        Metric(name="top5", unit="share", better="higher", title="top-5"),
        Metric(name="agreement", unit="share", better="higher", title="agreement with FP32"),
    ),
    rules=(Rule(name="output-mismatch", check=_mismatch),),
    starts=False,
    cost=cost,
    in_words=in_words,
)


@hookimpl
def benchrack_scenarios() -> list[Scenario]:
    return [ACCURACY]
