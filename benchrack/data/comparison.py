"""Outputs against a reference: agreement, cosine, errors. Arrays are (N, classes)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchrack.vocabulary.results import OutputCheck

if TYPE_CHECKING:
    import numpy as np


def check_outputs(outputs: np.ndarray, reference: np.ndarray, name: str) -> OutputCheck:
    """How far outputs of a few images are from the reference's.

    `max_relative_error` is the largest difference of an output relative to that image's largest
    reference output; outputs that are not finite count as infinitely far.
    """
    import numpy as np

    if outputs.shape != reference.shape:
        raise ValueError(
            f"outputs have the shape {outputs.shape}, and those of {name} for the same images "
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
    """The smallest difference between outputs of two images, relative to the largest output."""
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
