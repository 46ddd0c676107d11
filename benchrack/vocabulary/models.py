"""Networks, with their preprocessing and their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from benchrack.cache import Cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocessing:
    """From a decoded image to a model's input.

    The short side is resized to `resize` pixels, the centre `crop` × `crop` pixels are kept, and
    each channel becomes (value − mean) ÷ std, with value, mean and std on the scale 0 to 255.
    """

    resize: int
    crop: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model with its weights, as a `torch.nn.Module` in evaluation mode, FP32, on the CPU.

    `weights` names their origin and `digest` is a SHA-256 over all tensors. `trained` is False for
    random weights: their accuracy is never shown as a result. `multiply_accumulates` counts those
    of convolutions and matrix products for one image.
    """

    module: Any
    weights: str
    digest: str
    trained: bool
    parameters: int
    multiply_accumulates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A network that can be measured.

    `load(weights, cache)` raises WeightsError. `dataset` is what it is measured on unless the user
    names another; a model with `own_dataset` is made for that data set alone, and keeps it.
    `multiply_accumulates` of one image, where they are known before it is loaded, tell how long
    its cases will take beside others'.
    """

    name: str
    summary: str
    input_shape: tuple[int, int, int]
    classes: int
    preprocessing: Preprocessing
    load: Callable[[str, Cache], LoadedModel]
    multiply_accumulates: int | None = None
    dataset: str = "sample-photos"
    own_dataset: bool = False
    requires: tuple[str, ...] = ("torch",)
    extra: str = "pytorch"
