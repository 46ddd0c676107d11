"""From a decoded image to a model's input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchrack.vocabulary.models import Preprocessing

if TYPE_CHECKING:
    import numpy as np


def apply(preprocessing: Preprocessing, picture: np.ndarray, channels: int) -> np.ndarray:
    """An image, uint8 (H, W, 3) or (H, W), as float32 (channels, crop, crop)."""
    import numpy as np
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(picture)).convert("L" if channels == 1 else "RGB")
    width, height = image.size
    short, size, crop = min(width, height), preprocessing.resize, preprocessing.crop
    if short != size:
        method = Image.Resampling[preprocessing.interpolation.upper()]
        image = image.resize(
            (int(size * width / short), int(size * height / short)), resample=method
        )
    width, height = image.size
    left, top = round((width - crop) / 2), round((height - crop) / 2)
    image = image.crop((left, top, left + crop, top + crop))
    values = np.asarray(image, np.float32).reshape(crop, crop, channels)
    mean, std = (np.asarray(v, np.float32) for v in (preprocessing.mean, preprocessing.std))
    result: np.ndarray = np.ascontiguousarray(((values - mean) / std).transpose(2, 0, 1))
    return result
