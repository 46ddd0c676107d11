"""FP32 outputs to compare with: made once by the model's reference backend, kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from benchrack.data.comparison import check_outputs
from benchrack.scenarios.bench import Bench
from benchrack.vocabulary.backends import Backend, Session
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.models import LoadedModel
from benchrack.vocabulary.results import OutputCheck

if TYPE_CHECKING:
    import numpy as np

CHECK_BATCH = 8
CHECKED_PICTURES = 8


def outputs(session: Session, batches: Iterator[np.ndarray]) -> np.ndarray:
    """Logits, float32 (N, classes), of batches that are run one after another."""
    import numpy as np

    found = []
    for images in batches:
        output = session.run(session.place(images))
        session.synchronize()
        found.append(session.fetch(output))
    return np.concatenate(found)


def cached(
    bench: Bench,
    case: Case,
    loaded: LoadedModel,
    data_digest: str,
    make: Callable[[], np.ndarray],
) -> np.ndarray:
    """The reference logits of some pictures, float32 (N, classes), memory-mapped from the cache."""
    import numpy as np

    def save(folder: Path) -> None:
        np.save(folder / "logits.npy", make())

    backend = bench.registry.backend(bench.settings.reference)
    key = {
        "model": case.model,
        "weights": loaded.digest,
        "data": data_digest,
        "backend": bench.settings.reference,
        "framework": _versions(backend),
        "arithmetic": backend.runs_as(bench.device),
        "device": bench.device.name,
    }
    folder = bench.cache.get("reference", key, save)
    logits: np.ndarray = np.load(folder / "logits.npy", mmap_mode="r")
    return logits


def run(bench: Bench, case: Case, batches: Callable[[], Iterator[np.ndarray]]) -> np.ndarray:
    """Logits of the reference backend over the batches, on the bench's device.

    Raises UnsupportedError where the reference backend can't run here.
    """
    backend = bench.registry.backend(bench.settings.reference)
    with closing(bench.prepare(case, backend)) as session:
        return outputs(session, batches())


def of_inputs(bench: Bench, case: Case, loaded: LoadedModel, images: np.ndarray) -> np.ndarray:
    """Reference logits of some prepared inputs, float32 (N, C, H, W), N a few."""
    digest = hashlib.sha256(images.tobytes()).hexdigest()

    def batches() -> Iterator[np.ndarray]:
        for start in range(0, len(images), CHECK_BATCH):
            yield images[start : start + CHECK_BATCH]

    return cached(bench, case, loaded, digest, lambda: run(bench, case, batches))


def expected(bench: Bench, case: Case, session: Session) -> np.ndarray:
    """FP32 logits of the pictures that `check` compares, float32 (N, classes)."""
    bench.progress("checking outputs")
    return of_inputs(bench, case, session.loaded, _checked(bench, case))


def check(bench: Bench, case: Case, session: Session, expected_outputs: np.ndarray) -> OutputCheck:
    """The session's outputs for a few pictures against FP32 of the same model."""
    import numpy as np

    pictures = _checked(bench, case)
    size = -(-len(pictures) // case.batch_size) * case.batch_size
    filled = np.resize(pictures, (size, *pictures.shape[1:]))
    batches = (filled[start : start + case.batch_size] for start in range(0, size, case.batch_size))
    got = outputs(session, batches)[: len(pictures)]
    return check_outputs(got, np.asarray(expected_outputs), bench.settings.reference)


def _checked(bench: Bench, case: Case) -> np.ndarray:
    """The pictures whose outputs are compared, to be kept or overwritten by a session."""
    return bench.distinct_inputs(case)[:CHECKED_PICTURES].copy()


def _versions(backend: Backend) -> dict[str, str]:
    """Versions of the modules that a backend needs, as far as a distribution has their name."""
    found = {}
    for name in backend.requires:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
