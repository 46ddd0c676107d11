"""From images to inputs: torchvision's own pipeline is the reference."""

import numpy as np
import pytest
from PIL import Image

from benchrack.data import preprocessing
from benchrack.vocabulary.models import Preprocessing

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZES = [(100, 140), (140, 100), (96, 96), (64, 200), (501, 333), (30, 45)]


def made(interpolation="bilinear", resize=96, crop=84):
    return Preprocessing(
        resize=resize,
        crop=crop,
        mean=tuple(255 * v for v in MEAN),
        std=tuple(255 * v for v in STD),
        interpolation=interpolation,
    )


def picture(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", SIZES)
def test_equals_torchvision_on_pil_images(size, interpolation):
    transforms = pytest.importorskip("torchvision").transforms
    photo = picture(*size)
    expected = transforms.Compose(
        [
            transforms.Resize(96, transforms.InterpolationMode(interpolation)),
            transforms.CenterCrop(84),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )(Image.fromarray(photo)).numpy()
    result = preprocessing.apply(made(interpolation), photo, 3)
    assert result.shape == (3, 84, 84)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, atol=2e-6)


def test_values_are_standardised_on_the_scale_of_a_byte():
    flat = np.full((8, 8, 3), 255, np.uint8)
    rule = Preprocessing(resize=8, crop=8, mean=(127.0,) * 3, std=(128.0,) * 3)
    assert (preprocessing.apply(rule, flat, 3) == 1.0).all()


def test_a_grey_picture_fills_three_channels():
    grey = picture(96, 96)[..., 0]
    rule = Preprocessing(resize=96, crop=84, mean=(0.0,) * 3, std=(1.0,) * 3)
    red, green, blue = preprocessing.apply(rule, grey, 3)
    assert (red == grey[6:90, 6:90]).all()
    assert (red == green).all()
    assert (red == blue).all()


def test_a_colour_picture_becomes_luminance_for_one_channel():
    colour = picture(28, 28)
    rule = Preprocessing(resize=28, crop=28, mean=(0.0,), std=(1.0,))
    result = preprocessing.apply(rule, colour, 1)
    assert result.shape == (1, 28, 28)
    luminance = colour @ np.array([0.299, 0.587, 0.114])  # ITU-R BT.601
    np.testing.assert_allclose(result[0], luminance, atol=1)


def test_mirrored_views_are_taken_as_they_are():
    photo = picture(96, 96)
    rule = made(resize=96, crop=96)
    mirrored = preprocessing.apply(rule, photo[:, ::-1], 3)
    np.testing.assert_array_equal(mirrored, preprocessing.apply(rule, photo, 3)[..., ::-1])
