"""Seven networks of torchvision, the ones of the INT8 tables that vendors printed since 2017."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from benchrack.api import Model, Preprocessing, WeightsError, hookimpl
from benchrack.plugins.models import weights
from benchrack.plugins.models.weights import Network, Weights

if TYPE_CHECKING:
    import torch

INPUT_SHAPE = (3, 224, 224)
CLASSES = 1000
# The version whose published accuracy goes with this preprocessing; IMAGENET1K_V2 has another.
VERSION = "IMAGENET1K_V1"

IMAGENET = Preprocessing(
    resize=256,
    crop=224,
    mean=(0.485 * 255, 0.456 * 255, 0.406 * 255),
    std=(0.229 * 255, 0.224 * 255, 0.225 * 255),
)
# GoogLeNet was trained on −1 to 1. torchvision converts to that from IMAGENET inside its network
# (`transform_input`), which would add nodes to the graph that is measured.
CENTRED = Preprocessing(resize=256, crop=224, mean=(127.5,) * 3, std=(127.5,) * 3)

SUMMARIES = {
    "alexnet": "AlexNet, the one-tower variant of 2014 (not BVLC's)",
    "googlenet": "GoogLeNet with batch normalisation, without auxiliary heads",
    "vgg16": "VGG-16",
    "vgg19": "VGG-19",
    "resnet50": "ResNet-50 (v1.5: the stride is in the 3×3 convolution)",
    "resnet101": "ResNet-101 (v1.5)",
    "resnet152": "ResNet-152 (v1.5)",
}
# Of one image: what `weights.multiply_accumulates` counts in these networks; a test holds it.
MULTIPLY_ACCUMULATES = {
    "alexnet": 714_188_480,
    "googlenet": 1_498_376_192,
    "vgg16": 15_470_264_320,
    "vgg19": 19_632_062_464,
    "resnet50": 4_089_184_256,
    "resnet101": 7_801_405_440,
    "resnet152": 11_513_626_624,
}
# Without these, building draws weights that are thrown away, and GoogLeNet warns.
OPTIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "alexnet": {},
        "googlenet": {"aux_logits": False, "init_weights": False, "transform_input": False},
        "vgg16": {"init_weights": False},
        "vgg19": {"init_weights": False},
    }
)


@hookimpl
def benchrack_models() -> list[Model]:
    return [_model(name, summary) for name, summary in SUMMARIES.items()]


def _model(name: str, summary: str) -> Model:
    network = _network(name)
    return Model(
        name=name,
        summary=summary,
        input_shape=network.input_shape,
        classes=CLASSES,
        preprocessing=network.preprocessing,
        load=functools.partial(weights.load, network),
        multiply_accumulates=MULTIPLY_ACCUMULATES[name],
        requires=("torch", "torchvision", "numpy", "PIL"),
        extra="pytorch",
    )


def _network(name: str) -> Network:
    return Network(
        name=name,
        input_shape=INPUT_SHAPE,
        preprocessing=CENTRED if name == "googlenet" else IMAGENET,
        build=functools.partial(_build, name),
        pretrained=functools.partial(_pretrained, name),
        left_out=("aux1.", "aux2.") if name == "googlenet" else (),
        residual_norms=".bn3" if name.startswith("resnet") else None,
    )


def _build(name: str) -> torch.nn.Module:
    import torch
    import torchvision

    with torch.device("meta"):
        module: torch.nn.Module = torchvision.models.get_model(
            name, weights=None, **OPTIONS.get(name, {})
        )
    return module


def _pretrained(name: str) -> Weights:
    """torchvision's weights from torch's cache, or downloaded into it. Raises WeightsError."""
    import filelock
    import torch
    import torchvision

    published = torchvision.models.get_model_weights(name)[VERSION]
    path = Path(torch.hub.get_dir(), "checkpoints", Path(urlparse(published.url).path).name)
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(path.with_name(f".{path.name}.lock")):
                torch.hub.load_state_dict_from_url(
                    published.url, progress=False, check_hash=True, weights_only=True
                )
        except Exception as error:  # no network, no space, a cut or altered download
            raise WeightsError(
                f"torchvision's weights of {name} are not in torch's cache and can't be "
                f"downloaded: {error}. Put {path.name} into {path.parent}, or name a folder that "
                f"holds the state_dict as {name}.pth: --weights=DIR"
            ) from error
    return Weights(origin=f"torchvision {VERSION}", trained=True, state=weights.read_state(path))
