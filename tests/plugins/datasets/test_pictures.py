"""Image files: every mode becomes RGB, and a file that can't be decoded names itself."""

import os

import numpy as np
import pytest
from PIL import Image, ImageDraw

from benchrack.errors import CorruptImageError, DatasetError
from benchrack.plugins.datasets import pictures
from benchrack.plugins.datasets.pictures import Picture


def photo(size=(64, 48)):
    image = Image.new("RGB", size, (200, 40, 90))
    ImageDraw.Draw(image).ellipse((10, 10, 40, 40), fill=(20, 220, 30))
    return image


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [
        ("RGB", "png"),
        ("RGBA", "png"),
        ("L", "png"),
        ("LA", "png"),
        ("1", "png"),
        ("P", "png"),
        ("CMYK", "jpg"),
        ("L", "jpg"),
        ("RGB", "webp"),
    ],
)
def test_every_mode_becomes_rgb(mode, suffix, tmp_path):
    path = tmp_path / f"a.{suffix}"
    image = photo().convert(mode)
    image.save(path)
    result = pictures.read(path)
    assert (result.shape, result.dtype) == ((48, 64, 3), np.uint8)
    expected = np.asarray(image.convert("RGB"), float)
    assert np.abs(result - expected).mean() < 6  # JPEG and WebP lose a little


def test_a_palette_with_transparency_is_read_without_a_warning(tmp_path):
    image = photo().convert("P")
    image.save(tmp_path / "a.png", transparency=bytes(range(256)))
    assert pictures.read(tmp_path / "a.png").shape == (48, 64, 3)


def test_more_than_eight_bits_are_refused_rather_than_clipped(tmp_path):
    Image.fromarray(np.full((8, 8), 40_000, np.uint16)).save(tmp_path / "a.png")
    with pytest.raises(CorruptImageError, match=r"a\.png .* more than 8 bits"):
        pictures.read(tmp_path / "a.png")


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda b: b[: len(b) // 2], id="cut"),
        pytest.param(lambda b: b"", id="empty"),
        pytest.param(lambda b: b"not an image\n" * 99, id="text"),
        pytest.param(lambda b: bytes(len(b)), id="zeros"),
        pytest.param(lambda b: b[:30] + b"\xff" * 300, id="header"),
    ],
)
@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_a_corrupt_file_names_itself(damage, suffix, tmp_path):
    path = tmp_path / f"broken.{suffix}"
    photo().save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptImageError, match=str(path)):
        pictures.read(path)


def test_a_vanished_file_names_itself(tmp_path):
    with pytest.raises(CorruptImageError, match=r"gone\.jpg is missing"):
        pictures.read(tmp_path / "gone.jpg")


def test_a_picture_bomb_is_one_unreadable_picture(tmp_path, monkeypatch):
    photo().save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(CorruptImageError, match="decompression bomb"):
        pictures.read(tmp_path / "a.png")


def test_files_and_folders_are_listed_by_name_without_hidden_ones(tmp_path):
    for name in ("b.JPEG", "a.png", ".hidden.png", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    for name in ("two", "one", ".git", "folder.jpg"):
        (tmp_path / name).mkdir()
    assert [p.name for p in pictures.files(tmp_path)] == ["a.png", "b.JPEG"]
    assert [p.name for p in pictures.folders(tmp_path)] == ["folder.jpg", "one", "two"]


@pytest.fixture
def three(tmp_path):
    found = []
    for label, name in enumerate("abc"):
        path = tmp_path / f"{name}.png"
        photo().save(path)
        found.append(Picture(path=path, name=path.name, label=label))
    return found


def test_the_first_calibrate_and_all_others_are_measured(three):
    split = pictures.split("some", three, 3, 1)
    assert [s.name for s in split.calibration] == ["a.png"]
    assert [(s.name, s.label) for s in split.measured] == [("b.png", 1), ("c.png", 2)]
    assert split.measured[0].read().shape == (48, 64, 3)


@pytest.mark.parametrize("calibrating", [3, 4])
def test_something_must_be_left_to_measure(three, calibrating):
    with pytest.raises(DatasetError, match=r"some has 3 images.*calibration_batches"):
        pictures.split("some", three, 3, calibrating)


def test_the_digest_changes_with_content_order_labels_and_split(three):
    def digest(found=three, calibrating=1):
        return pictures.split("some", found, 3, calibrating).digest

    before = digest()
    assert digest() == before
    relabelled = [Picture(path=p.path, name=p.name, label=0) for p in three]
    changed = {digest(three[::-1]), digest(relabelled), digest(calibrating=2)}
    status = three[0].path.stat()
    os.utime(three[0].path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    changed.add(digest())
    three[1].path.write_bytes(b"other")
    changed.add(digest())
    three[2].path.unlink()  # a dangling link looks the same
    changed.add(digest())
    assert len(changed | {before}) == 7
