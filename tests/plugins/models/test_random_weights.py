"""Random weights: outputs that differ between inputs, in FP16's range, the same everywhere."""

import pytest
from fakes.settings import make_request

from benchrack.cache import Cache
from benchrack.data import inputs
from benchrack.plugins.datasets import sample_photos
from benchrack.plugins.models import random_weights, weights
from benchrack.plugins.models.torchvision import benchrack_models

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

MODELS = {model.name: model for model in benchrack_models()}


def network(name):
    return MODELS[name].load.args[0]


@pytest.fixture(scope="module")
def googlenet_cache(tmp_path_factory):
    cache = Cache(tmp_path_factory.mktemp("cache"))
    MODELS["googlenet"].load("random", cache)
    return cache


def photos(name, count=4):
    pytest.importorskip("foolbox", exc_type=ImportError)
    found = sample_photos.open_photos(None, make_request()).measured[:count]
    return torch.from_numpy(inputs.read_images(found, MODELS[name])[0])


def cosines(a, b):
    return torch.nn.functional.cosine_similarity(a.double(), b.double())


def check_outputs(name, module):
    images = photos(name)
    with torch.inference_mode():
        outputs = module(images)
        half = module.half()(images.half()).float()
    between = [cosines(outputs[i : i + 1], outputs[:i]).max() for i in range(1, 4)]
    assert max(between) < 0.9
    assert outputs.abs().max() < 1000
    assert half.isfinite().all()
    assert cosines(outputs, half).min() > 0.998


def test_outputs_differ_between_inputs_and_fit_into_fp16(googlenet_cache):
    """torchvision's own initialisation gives the same output for all inputs."""
    check_outputs("googlenet", MODELS["googlenet"].load("random", googlenet_cache).module)


@pytest.mark.parametrize("name", ["alexnet", "resnet50"])
def test_so_do_those_of_networks_without_normalisation_and_of_deep_ones(name):
    module = network(name).meta_module()
    module.load_state_dict(random_weights.draw(network(name), 0), assign=True)
    check_outputs(name, module)


def test_weights_are_the_same_on_every_machine(googlenet_cache):
    """Also with torch 2.7.1 and 2.14.1, on processors that sum in another order."""
    loaded = MODELS["googlenet"].load("random", googlenet_cache)
    assert loaded.digest.startswith("b3c7035f6d146cb5")
    assert loaded.digest == weights.digest(loaded.module.state_dict())


def test_weights_do_not_depend_on_the_number_of_threads(googlenet_cache):
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if threads > 1 else 2)
    try:
        drawn = random_weights.draw(network("googlenet"), random_weights.SEED)
    finally:
        torch.set_num_threads(threads)
    digest = MODELS["googlenet"].load("random", googlenet_cache).digest
    assert weights.digest(drawn) == digest


def test_torchs_random_state_and_threads_are_left_alone():
    torch.manual_seed(17)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    random_weights.draw(network("googlenet"), 1)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_num_threads() == threads


def test_another_seed_gives_other_weights():
    module = network("googlenet").meta_module()
    first, second = (random_weights.initial(module, seed) for seed in (0, 1))
    assert not torch.equal(first["fc.weight"], second["fc.weight"])


def test_the_initial_variance_is_that_of_he():
    module = network("googlenet").meta_module()
    weight = random_weights.initial(module, 0)["fc.weight"]
    assert weight.var().item() == pytest.approx(2 / 1024, rel=0.01)
    assert weight.mean().item() == pytest.approx(0, abs=1e-3)


def test_a_second_load_reads_the_cache(googlenet_cache, monkeypatch):
    def draw(*_):
        raise AssertionError("drawn again")

    monkeypatch.setattr(random_weights, "draw", draw)
    loaded = MODELS["googlenet"].load("auto", googlenet_cache)
    assert not loaded.trained
    assert loaded.weights == "random (seed 0)"
    assert loaded.module.fc.weight.device.type == "cpu"
    (entry,) = googlenet_cache.entries()
    assert {"model", "recipe", "seed", "torch", "torchvision", "numpy"} <= entry.key.keys()
