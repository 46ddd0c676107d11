"""A small real model on the real frameworks: the digits network with random weights."""

import dataclasses

import numpy as np
import pytest

from benchrack.cache import Cache
from benchrack.registry.registry import load_registry
from benchrack.vocabulary.backends import PrepareRequest
from benchrack.vocabulary.devices import Device


@pytest.fixture(scope="session")
def plugins():
    return load_registry()


@pytest.fixture(scope="session")
def request_for(plugins, tmp_path_factory):
    """`request_for(**changes)`: what a backend gets to prepare the small network on the CPU."""
    draw = np.random.default_rng(3)
    batches = [draw.standard_normal((25, 1, 28, 28), dtype=np.float32) for _ in range(2)]
    plain = PrepareRequest(
        model=plugins.model("digits-cnn"),
        weights="random",
        device=Device(kind="cpu", name="cpu"),
        batch_size=4,
        threads=1,
        seed=0,
        cache=Cache(tmp_path_factory.mktemp("cache")),
        calibration=lambda: iter(batches),
        calibration_digest="noise",
        calibration_images=50,
    )
    return lambda **changes: dataclasses.replace(plain, **changes)


@pytest.fixture(scope="session")
def images():
    return np.random.default_rng(4).standard_normal((4, 1, 28, 28), dtype=np.float32)
