"""FP32 outputs to compare with: made once by the model's reference backend, kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from benchrack.bench import Bench
from benchrack.types import Backend, Case, LoadedModel, Session

if TYPE_CHECKING:
    import numpy as np

CHECK_BATCH = 8


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

    key = {
        "model": case.model,
        "weights": loaded.digest,
        "data": data_digest,
        "backend": bench.settings.reference,
        "framework": _versions(bench.registry.backend(bench.settings.reference)),
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


def _versions(backend: Backend) -> dict[str, str]:
    """Versions of the modules that a backend needs, as far as a distribution has their name."""
    found = {}
    for name in backend.requires:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
