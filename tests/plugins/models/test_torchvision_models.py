"""torchvision's networks: sizes as published, preprocessing, pretrained weights."""

import urllib.error

import numpy as np
import pytest

from benchrack.cache import Cache
from benchrack.errors import WeightsError
from benchrack.plugins.models import random_weights, torchvision as plugin, weights

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

MODELS = {model.name: model for model in plugin.benchrack_models()}

# Parameters and multiply-accumulates in units of 1e9, as torchvision 0.29 prints them.
PUBLISHED = {
    "alexnet": (61_100_840, "0.714"),
    "googlenet": (6_624_904, "1.498"),
    "vgg16": (138_357_544, "15.470"),
    "vgg19": (143_667_240, "19.632"),
    "resnet50": (25_557_032, "4.089"),
    "resnet101": (44_549_160, "7.801"),
    "resnet152": (60_192_808, "11.514"),
}


def network(name):
    return MODELS[name].load.args[0]


def pretrained_file(hub, name):
    url = torchvision.models.get_model_weights(name)["IMAGENET1K_V1"].url
    path = hub / "hub" / "checkpoints" / url.rsplit("/", 1)[1]
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """torch's own cache of downloads, empty and elsewhere."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    return tmp_path / "torch"


@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_are_the_published_ones(name):
    module = network(name).meta_module()
    operations = weights.multiply_accumulates(module, MODELS[name].input_shape)
    parameters = sum(p.numel() for p in module.parameters())
    assert (parameters, f"{operations / 1e9:.3f}") == PUBLISHED[name]
    assert MODELS[name].multiply_accumulates == operations


def test_all_seven_are_there_and_measure_1000_classes_at_224():
    assert MODELS.keys() == PUBLISHED.keys()
    assert {m.input_shape for m in MODELS.values()} == {(3, 224, 224)}
    assert {m.classes for m in MODELS.values()} == {1000}


@pytest.mark.parametrize("name", PUBLISHED)
def test_preprocessing_is_that_of_the_pretrained_weights(name):
    rule = MODELS[name].preprocessing
    published = torchvision.models.get_model_weights(name)["IMAGENET1K_V1"].transforms()
    assert [rule.resize] == published.resize_size
    assert [rule.crop] == published.crop_size
    assert rule.interpolation == published.interpolation.value
    if name != "googlenet":
        np.testing.assert_allclose(np.array(rule.mean) / 255, published.mean)
        np.testing.assert_allclose(np.array(rule.std) / 255, published.std)


def test_googlenets_preprocessing_replaces_the_conversion_inside_torchvisions_network():
    state = random_weights.draw(network("googlenet"), 0)
    ours = network("googlenet").meta_module()
    ours.load_state_dict(state, assign=True)
    with torch.device("meta"):
        theirs = torchvision.models.googlenet(
            weights=None, aux_logits=False, init_weights=False, transform_input=True
        ).eval()
    theirs.load_state_dict(state, assign=True)
    picture = torch.from_numpy(np.random.default_rng(0).uniform(0, 255, (1, 3, 224, 224))).float()

    def standardised(rule):
        mean, std = (torch.tensor(v)[:, None, None] for v in (rule.mean, rule.std))
        return (picture - mean) / std

    with torch.inference_mode():
        torch.testing.assert_close(
            ours(standardised(MODELS["googlenet"].preprocessing)),
            theirs(standardised(plugin.IMAGENET)),
            rtol=1e-4,
            atol=1e-4,
        )


def test_pretrained_weights_come_from_torchs_cache(hub, tmp_path):
    """GoogLeNet's file has the auxiliary heads, which are left out."""
    state = random_weights.initial(network("googlenet").meta_module(), 3)
    heads = {"aux1.fc2.weight": torch.ones(2), "aux2.fc2.weight": torch.ones(2)}
    torch.save({**state, **heads}, pretrained_file(hub, "googlenet"))
    loaded = MODELS["googlenet"].load("torchvision", Cache(tmp_path / "cache"))
    assert loaded.weights == "torchvision IMAGENET1K_V1"
    assert loaded.trained
    assert loaded.digest == weights.digest(state)


def test_a_failing_download_says_what_to_do(hub, tmp_path, monkeypatch):
    def unreachable(url, **options):
        assert options["weights_only"]
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", unreachable)
    with pytest.raises(WeightsError) as caught:
        MODELS["resnet50"].load("torchvision", Cache(tmp_path / "cache"))
    file = pretrained_file(hub, "resnet50")
    for text in ("no route to host", file.name, str(file.parent), "--weights=DIR", "resnet50.pth"):
        assert text in str(caught.value)


def test_a_cut_download_in_torchs_cache_is_named(hub, tmp_path):
    pretrained_file(hub, "resnet50").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(WeightsError, match=r"resnet50-\w+\.pth"):
        MODELS["resnet50"].load("torchvision", Cache(tmp_path / "cache"))


def test_torch_downloads_what_is_not_in_its_cache(hub, tmp_path, monkeypatch):
    state = random_weights.initial(network("googlenet").meta_module(), 3)

    def download(url, **options):
        torch.save(state, pretrained_file(hub, "googlenet"))

    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", download)
    loaded = MODELS["googlenet"].load("torchvision", Cache(tmp_path / "cache"))
    assert loaded.digest == weights.digest(state)
