"""FP32 outputs to compare with: made once by the model's reference backend, kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from benchrack.cache import Cache
from benchrack.data.comparison import check_outputs
from benchrack.vocabulary.backends import Backend, Session
from benchrack.vocabulary.devices import Device
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The backend whose outputs are compared with, on a device; `prepare` makes a session of the
    model on it, and raises what preparing raises."""

    backend: Backend
    device: Device
    model: str
    prepare: Callable[[], Session]
    cache: Cache

    def cached(
        self, loaded: LoadedModel, data_digest: str, make: Callable[[], np.ndarray]
    ) -> np.ndarray:
        """The logits of some images, float32 (N, classes), memory-mapped from the cache."""
        import numpy as np

        def save(folder: Path) -> None:
            np.save(folder / "logits.npy", make())

        key = {
            "model": self.model,
            "weights": loaded.digest,
            "data": data_digest,
            "backend": self.backend.name,
            "framework": _versions(self.backend),
            "arithmetic": self.backend.runs_as(self.device),
            "device": self.device.name,
        }
        folder = self.cache.get("reference", key, save)
        logits: np.ndarray = np.load(folder / "logits.npy", mmap_mode="r")
        return logits

    def run(self, batches: Iterator[np.ndarray]) -> np.ndarray:
        """Logits over the batches. Raises UnsupportedError where the backend can't run here."""
        with closing(self.prepare()) as session:
            return outputs(session, batches)

    def of_inputs(self, loaded: LoadedModel, images: np.ndarray) -> np.ndarray:
        """Logits of some prepared inputs, float32 (N, C, H, W), N a few."""
        digest = hashlib.sha256(images.tobytes()).hexdigest()
        starts = range(0, len(images), CHECK_BATCH)
        batches = (images[start : start + CHECK_BATCH] for start in starts)
        return self.cached(loaded, digest, lambda: self.run(batches))


def checked(pool: np.ndarray) -> np.ndarray:
    """The inputs whose outputs are compared, to be kept or overwritten by a session."""
    return pool[:CHECKED_PICTURES].copy()


def check(
    session: Session, images: np.ndarray, expected: np.ndarray, batch_size: int, reference: str
) -> OutputCheck:
    """The session's outputs for a few inputs against those that the reference gave for them."""
    import numpy as np

    size = -(-len(images) // batch_size) * batch_size
    filled = np.resize(images, (size, *images.shape[1:]))
    batches = (filled[start : start + batch_size] for start in range(0, size, batch_size))
    got = outputs(session, batches)[: len(images)]
    return check_outputs(got, np.asarray(expected), reference)


def _versions(backend: Backend) -> dict[str, str]:
    """Versions of the modules that a backend needs, as far as a distribution has their name."""
    found = {}
    for name in backend.requires:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
