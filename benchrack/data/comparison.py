"""Outputs against a reference: accuracy, agreement, cosine, errors. Arrays are (N, classes)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchrack.statistics.order_statistics import wilson
from benchrack.vocabulary.results import Accuracy, OutputCheck

if TYPE_CHECKING:
    import numpy as np


def check_outputs(outputs: np.ndarray, reference: np.ndarray, name: str) -> OutputCheck:
    """How far outputs of a few pictures are from the reference's.

    `max_relative_error` is the largest difference of an output relative to that picture's largest
    reference output; outputs that are not finite count as infinitely far.
    """
    import numpy as np

    if outputs.shape != reference.shape:
        raise ValueError(
            f"outputs have the shape {outputs.shape}, and those of {name} for the same pictures "
            f"{reference.shape}"
        )
    scale = np.abs(reference).max(axis=1, keepdims=True)
    finite = bool(np.isfinite(outputs).all())
    error = np.abs(outputs - reference) / np.where(scale > 0, scale, 1)
    return OutputCheck(
        images=len(outputs),
        reference=name,
        max_relative_error=float(error.max()) if finite else float("inf"),
        cosine=float(cosines(outputs, reference).mean()) if finite else 0.0,
        agreement=float((outputs.argmax(axis=1) == reference.argmax(axis=1)).mean()),
        input_spread=_spread(outputs) if finite else 0.0,
    )


def _spread(outputs: np.ndarray) -> float:
    """The smallest difference between outputs of two pictures, relative to the largest output."""
    import numpy as np

    if len(outputs) < 2:
        return 0.0
    differences = np.abs(outputs[:, None, :] - outputs[None, :, :]).max(axis=2)
    others = ~np.eye(len(outputs), dtype=bool)
    return float(differences[others].min() / (np.abs(outputs).max() or 1))


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cosine of each pair of rows, float64 (N,)."""
    import numpy as np

    a, b = a.astype(np.float64), b.astype(np.float64)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosine: np.ndarray = (a * b).sum(axis=1) / np.where(norms > 0, norms, 1)
    return cosine


def assess_accuracy(
    outputs: np.ndarray,
    reference: np.ndarray,
    labels: Sequence[int | None],
    *,
    trained: bool,
    unreadable: tuple[str, ...] = (),
) -> Accuracy:
    """Top-1 and top-5 with Wilson's intervals, and the comparison with the reference on the same
    pictures. Without labels or trained weights there is no top-1: it is None, not zero."""
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
