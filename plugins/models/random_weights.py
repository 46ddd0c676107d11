"""Random weights whose outputs can be checked: they differ between inputs and stay in FP16's range.

A network's usual initialisation gives neither (GoogLeNet's outputs for all photos are the same to
twelve digits, ResNet-152's logits reach 1e8). Here, in three steps:

1. weights are uniform with variance 2 ÷ fan-in (He et al. 2015, arXiv:1502.01852), biases zero. The
   normalisation that closes a residual branch is scaled by RESIDUAL_SCALE: trained networks start
   it at zero (Goyal et al. 2017, arXiv:1706.02677), and at one a network of 152 layers amplifies
   the rounding of BF16 until its outputs are unrelated to FP32's;
2. one pass over images of overlapping discs sets the statistics of the batch normalisations. Such
   "dead leaves" have the edges and the spectrum of photos (Lee, Mumford and Huang 2001); noise has
   not, and photos then leave the range for which the statistics hold;
3. the last layer is shifted and scaled so that each logit has mean 0 and deviation 1 over the pass.

The same on every machine: the draws are PCG64's, the pass is computed in FP64, and what it sets is
rounded to multiples of 2**-10, far coarser than what the order of summation changes.
"""

from __future__ import annotations

import math
import zlib
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from benchrack.api import Cache
from benchrack.plugins.models import threads
from benchrack.plugins.models.weights import Network, Weights, digest, read_state

if TYPE_CHECKING:
    import numpy as np
    import torch

RECIPE = 1
SEED = 0
VERSIONS = ("torch", "torchvision", "numpy")
PICTURES = 16
DISCS = 300
RESIDUAL_SCALE = 0.2
GRID = 2.0**10


def make(network: Network, cache: Cache) -> Weights:
    """The network's random weights; drawn once, then read from the cache."""
    import torch

    versions = {name: metadata.version(name) for name in VERSIONS if find_spec(name)}
    key = {"model": network.name, "recipe": RECIPE, "seed": SEED, **versions}

    def write(folder: Path) -> None:
        state = draw(network, SEED)
        torch.save(state, folder / "weights.pt")
        (folder / "digest").write_text(digest(state))

    folder = cache.get("random-weights", key, write)
    return Weights(
        origin=f"random (seed {SEED})",
        trained=False,
        state=read_state(folder / "weights.pt"),
        digest=(folder / "digest").read_text(),
    )


def draw(network: Network, seed: int) -> dict[str, torch.Tensor]:
    """A state_dict, FP32, by the recipe above. Torch's own random state is left alone."""
    import torch

    module = network.meta_module()
    state = initial(module, seed)
    if network.residual_norms:
        for name in state:
            if name.endswith(f"{network.residual_norms}.weight"):
                state[name].fill_(RESIDUAL_SCALE)
    module.load_state_dict(
        {k: v.double() if v.is_floating_point() else v.clone() for k, v in state.items()},
        assign=True,
    )
    logits = _settle(module, torch.from_numpy(_inputs(network, seed)))
    for name, buffer in module.named_buffers():
        state[name] = _rounded(buffer).float() if buffer.is_floating_point() else buffer
    _standardize_outputs(module, state, logits)
    return state


def initial(module: torch.nn.Module, seed: int) -> dict[str, torch.Tensor]:
    """Step 1: tensors for all names of a module's state_dict, FP32 where it has floats."""
    import torch

    state = {}
    for name, tensor in module.state_dict().items():
        if tensor.dim() > 1:
            state[name] = _uniform(tuple(tensor.shape), [seed, zlib.crc32(name.encode())])
        elif not tensor.is_floating_point():
            state[name] = torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")
        else:
            is_one = name.endswith((".weight", ".running_var"))
            state[name] = torch.full(tensor.shape, float(is_one), device="cpu")
    return state


def _uniform(shape: tuple[int, ...], seed: list[int]) -> torch.Tensor:
    import numpy as np
    import torch

    limit = math.sqrt(6 / math.prod(shape[1:]))
    values = np.random.Generator(np.random.PCG64(seed)).random(shape, dtype=np.float32)
    values -= np.float32(0.5)
    values *= np.float32(2 * limit)
    return torch.from_numpy(values)


def _inputs(network: Network, seed: int) -> np.ndarray:
    """Dead leaves as the network's inputs at half its resolution, float64 (N, C, H, W)."""
    import numpy as np

    channels, side = network.input_shape[0], network.input_shape[1] // 2
    rng = np.random.Generator(np.random.PCG64(seed))
    rows, columns = np.mgrid[0:side, 0:side]
    pictures = np.zeros((PICTURES, channels, side, side))
    for picture in pictures:
        for _ in range(DISCS):
            top, left, size, grey = rng.random(4)
            radius = side / 2 * (0.03 + 0.97 * size * size * size)
            colour = 0.75 * grey + 0.25 * rng.random(channels)
            inside = (rows - side * top) ** 2 + (columns - side * left) ** 2 < radius * radius
            picture[:, inside] = colour[:, np.newaxis]
    pictures += 0.05 * (rng.random(pictures.shape) - 0.5)  # the grain of a sensor
    mean, std = (
        np.asarray(v)[:, np.newaxis, np.newaxis]
        for v in (network.preprocessing.mean, network.preprocessing.std)
    )
    result: np.ndarray = (255 * pictures - mean) / std
    return result


def _settle(module: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """Step 2: the pass. Normalisations get the statistics of this one batch. Returns the logits."""
    import torch

    norms = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train()
        norm.momentum = None  # a plain average over all batches, of which there is one
    with threads.one(), torch.inference_mode(False), torch.no_grad():
        logits: torch.Tensor = module(inputs)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.eval()
        norm.momentum = momentum
    return logits


def _standardize_outputs(
    module: torch.nn.Module, state: dict[str, torch.Tensor], logits: torch.Tensor
) -> None:
    """Step 3, on the last linear layer; its bias was zero."""
    import torch

    last = [name for name, m in module.named_modules() if isinstance(m, torch.nn.Linear)][-1]
    deviation = _rounded(logits.std(0)).clamp_min(1 / GRID)
    state[f"{last}.weight"] /= deviation.float()[:, None]
    state[f"{last}.bias"] = _rounded(-logits.mean(0) / deviation).float()


def _rounded(values: torch.Tensor) -> torch.Tensor:
    return (values * GRID).round() / GRID
