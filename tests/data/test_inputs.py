"""Images as inputs of a model: batches, unreadable images, and pools of distinct inputs."""

import dataclasses

import numpy as np
import pytest

from benchrack.cache import Cache
from benchrack.data import inputs
from benchrack.errors import CorruptImageError, DatasetError
from benchrack.vocabulary.datasets import Sample, Split
from benchrack.vocabulary.models import Model, Preprocessing

SIDE = 8
EACH = 4 * 3 * SIDE * SIDE  # bytes of one input


def unloadable(weights, cache):
    raise AssertionError("inputs need no weights")


MODEL = Model(
    name="tiny",
    summary="",
    input_shape=(3, SIDE, SIDE),
    classes=10,
    preprocessing=Preprocessing(resize=SIDE, crop=SIDE, mean=(0.0,) * 3, std=(1.0,) * 3),
    load=unloadable,
)


def readable(number, side=16):
    pixels = np.random.default_rng(number).integers(0, 256, (side, side, 3), dtype=np.uint8)
    return Sample(name=f"p{number}", label=number % 10, read=lambda: pixels)


def corrupt(number):
    def read():
        raise CorruptImageError(f"p{number} is cut")

    return Sample(name=f"p{number}", label=0, read=read)


def flat(value):
    return Sample(name="flat", label=0, read=lambda: np.full((16, 16, 3), value, np.uint8))


def split(samples, classes=10):
    return Split(name="some", classes=classes, calibration=(), measured=samples, digest="d")


def pool(samples, count, limit=10**9, seed=0):
    return inputs.input_pool(
        split(samples), MODEL, minimum_bytes=count * EACH, limit_bytes=limit, seed=seed
    )


def distinct(images):
    return len({image.tobytes() for image in images})


def test_batches_keep_the_order_and_the_last_one_is_the_rest():
    samples = [readable(n) for n in range(7)]
    batches = list(inputs.iterate_batches(samples, MODEL, 3))
    assert [len(b.images) for b in batches] == [3, 3, 1]
    assert [b.labels for b in batches] == [(0, 1, 2), (3, 4, 5), (6,)]
    images, labels, unreadable = inputs.read_images(samples, MODEL)
    assert images.shape == (7, 3, SIDE, SIDE)
    assert images.dtype == np.float32
    np.testing.assert_array_equal(np.concatenate([b.images for b in batches]), images)
    assert (labels, unreadable) == (list(range(7)), ())


@pytest.mark.parametrize("broken", [{0}, {2}, {3, 4, 5}, {6}, {0, 1, 2, 3}, {5, 6}])
def test_every_unreadable_picture_is_named_and_others_take_its_place(broken):
    samples = [corrupt(n) if n in broken else readable(n) for n in range(7)]
    batches = list(inputs.iterate_batches(samples, MODEL, 3))
    names = [name for b in batches for name in b.unreadable]
    assert names == [f"p{n}" for n in sorted(broken)]
    assert [n for b in batches for n in b.labels] == sorted(set(range(7)) - broken)
    assert all(len(b.images) == 3 for b in batches[:-1])
    assert all(len(b.images) == len(b.labels) > 0 for b in batches)


def test_pictures_that_can_all_not_be_read_are_still_named():
    (batch,) = inputs.iterate_batches([corrupt(0), corrupt(1)], MODEL, 1)
    assert batch.images.shape == (0, 3, SIDE, SIDE)
    assert batch.unreadable == ("p0", "p1")


def test_no_samples_make_no_batch():
    assert list(inputs.iterate_batches([], MODEL, 4)) == []
    images, labels, unreadable = inputs.read_images([], MODEL)
    assert images.shape == (0, 3, SIDE, SIDE)
    assert (labels, unreadable) == ([], ())


def test_pictures_are_read_as_batches_are_taken():
    """50,000 images are never in memory at once."""
    taken = []

    def counted(number):
        sample = readable(number)
        return Sample(name=sample.name, label=0, read=lambda: taken.append(number) or sample.read())

    batches = inputs.iterate_batches([counted(n) for n in range(1000)], MODEL, 10)
    next(batches)
    assert len(taken) <= 2 * inputs.READ_AHEAD
    batches.close()


def test_an_error_that_is_not_the_pictures_own_comes_through():
    def read():
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        list(inputs.iterate_batches([Sample(name="x", label=0, read=read)], MODEL, 1))


def test_class_counts_must_match_where_there_are_labels():
    inputs.require_classes(split([]), MODEL)
    inputs.require_classes(split([], classes=None), MODEL)
    with pytest.raises(DatasetError, match="some has 100 classes, but tiny tells 10 apart"):
        inputs.require_classes(split([], classes=100), MODEL)


def test_a_pool_takes_real_pictures_where_they_suffice():
    samples = [readable(n) for n in range(9)]
    expected, _, _ = inputs.read_images(samples[:6], MODEL)
    np.testing.assert_array_equal(pool(samples, 6), expected)


def test_a_pool_goes_on_with_variants_and_no_two_inputs_are_equal():
    samples = [readable(n) for n in range(5)]
    images = pool(samples, 40)
    assert images.shape == (40, 3, SIDE, SIDE)
    assert images.dtype == np.float32
    assert distinct(images) == 40
    np.testing.assert_array_equal(images[:5], inputs.read_images(samples, MODEL)[0])


def test_variants_depend_on_the_seed_alone():
    samples = [readable(n) for n in range(3)]
    np.testing.assert_array_equal(pool(samples, 12, seed=1), pool(samples, 12, seed=1))
    assert (pool(samples, 12, seed=1)[3:] != pool(samples, 12, seed=2)[3:]).any()


def test_the_limit_bounds_the_pool_but_for_two_inputs():
    samples = [readable(n) for n in range(5)]
    assert len(pool(samples, 40, limit=10 * EACH)) == 10
    assert len(pool(samples, 40, limit=1)) == 2
    assert len(pool(samples, 1)) == 2


def test_repeated_and_corrupt_pictures_add_nothing():
    samples = [corrupt(0), readable(1), readable(1), corrupt(2), readable(3)]
    images = pool(samples, 10)
    assert distinct(images) == 10
    np.testing.assert_array_equal(
        images[:2], inputs.read_images([readable(1), readable(3)], MODEL)[0]
    )


def test_few_variants_of_tiny_pictures_make_a_smaller_pool():
    images = pool([readable(0, side=2)], 1000)
    assert 2 <= len(images) < 1000
    assert distinct(images) == len(images)


def test_pictures_without_any_difference_are_refused():
    with pytest.raises(DatasetError, match="the same"):
        pool([flat(7), flat(7)], 4)


def test_pictures_that_can_all_not_be_read_are_refused():
    with pytest.raises(DatasetError, match="none of its 2 images can be read"):
        pool([corrupt(0), corrupt(1)], 4)


def cached(root, samples, count=12, model=MODEL, **changes):
    asked = {"minimum_bytes": count * EACH, "limit_bytes": 10**9, "seed": 0, **changes}
    return inputs.cached_input_pool(Cache(root), split(samples), model, **asked)


def test_a_cached_pool_is_the_same_one_and_decodes_nothing_twice(tmp_path):
    samples = [readable(n) for n in range(3)]
    made = cached(tmp_path, samples)
    np.testing.assert_array_equal(made, pool(samples, 12))
    found = cached(tmp_path, [corrupt(n) for n in range(3)])  # nobody reads these
    np.testing.assert_array_equal(found, made)
    assert found.dtype == np.float32
    assert not found.flags.writeable


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"limit_bytes": 4 * EACH},
        {"minimum_bytes": 5 * EACH},
        {
            "model": dataclasses.replace(
                MODEL,
                preprocessing=dataclasses.replace(MODEL.preprocessing, mean=(0.5, 0.5, 0.5)),
            )
        },
    ],
    ids=["seed", "limit", "minimum", "preprocessing"],
)
def test_a_pool_of_another_kind_is_another_product(tmp_path, change):
    samples = [readable(n) for n in range(3)]
    first, other = cached(tmp_path, samples), cached(tmp_path, samples, **change)
    assert first.shape != other.shape or (first != other).any()


def test_pictures_that_can_not_be_read_leave_no_pool_behind(tmp_path):
    with pytest.raises(DatasetError, match="can be read"):
        cached(tmp_path, [corrupt(0)])
    assert Cache(tmp_path).entries() == []
