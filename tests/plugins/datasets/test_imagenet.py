"""ImageNet in its layouts and with its label files, as small trees of tiny images."""

import os
import shutil

import numpy as np
import pytest
from fakes.settings import make_request
from PIL import Image

from benchrack.errors import CorruptImageError, DatasetError
from benchrack.plugins.datasets import imagenet_labels
from benchrack.plugins.datasets.imagenet import open_imagenet

SETTINGS = make_request(calibration_batches=2, calibration_batch_size=2)
# 1,000 made-up WordNet ids, sorted; the class of the image with number n is CLASS[n].
IDS = [f"n{1_000_000 + 37 * i:08d}" for i in range(1000)]
CLASS = {1: 65, 2: 970, 3: 230, 4: 809, 5: 516, 6: 57, 7: 334, 8: 0, 9: 999, 10: 65}
# The devkit's own numbers, in another order than that of the ids.
DEVKIT = {1 + (i * 7 + 300) % 1000: wordnet_id for i, wordnet_id in enumerate(IDS)}
DEVKIT_NUMBER = {wordnet_id: number for number, wordnet_id in DEVKIT.items()}


def stem(number):
    return f"ILSVRC2012_val_{number:08d}"


def save(path, number):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 6), (number, 0, 0)).save(path, "JPEG")
    os.utime(path, (1_300_000_000, 1_300_000_000))


@pytest.fixture
def flat(tmp_path):
    for number in CLASS:
        save(tmp_path / "flat" / "val" / f"{stem(number)}.JPEG", number)
    return tmp_path / "flat" / "val"


@pytest.fixture
def classed(tmp_path):
    """All 1,000 class folders; most are empty here."""
    for wordnet_id in IDS:
        (tmp_path / "classed" / "val" / wordnet_id).mkdir(parents=True)
    for number, index in CLASS.items():
        save(tmp_path / "classed" / "val" / IDS[index] / f"{stem(number)}.JPEG", number)
    return tmp_path / "classed" / "val"


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def write_val(folder):
    write(folder / "val.txt", [f"{stem(n)}.JPEG {index}" for n, index in CLASS.items()])


def write_solution(folder):
    rows = [f"{stem(n)},{IDS[index]} 85 1 499 272" for n, index in CLASS.items()]
    write(folder / "LOC_val_solution.csv", ["ImageId,PredictionString", *reversed(rows)])


def write_mapping(folder):
    write(folder / "LOC_synset_mapping.txt", [f"{i} tench, Tinca tinca" for i in IDS])


def write_ground_truth(folder):
    numbers = [str(DEVKIT_NUMBER[IDS[index]]) for index in CLASS.values()]
    write(folder / "ILSVRC2012_validation_ground_truth.txt", numbers)


def labels(folder, settings=SETTINGS):
    split = open_imagenet(str(folder), settings)
    samples = [*split.calibration, *split.measured]
    assert [s.name for s in samples] == [f"{stem(n)}.JPEG" for n in CLASS]
    assert split.classes == 1000
    return {n: s.label for n, s in zip(CLASS, samples, strict=True)}


def test_class_folders(classed):
    assert labels(classed) == CLASS


def test_flat_with_val_txt(flat):
    write_val(flat)
    assert labels(flat) == CLASS


@pytest.mark.parametrize("name", ["val.txt", "val_map.txt"])
def test_label_files_are_found_above_the_pictures(flat, name):
    write_val(flat.parent)
    (flat.parent / "val.txt").rename(flat.parent / name)
    assert labels(flat) == CLASS


def test_names_in_val_txt_may_have_folders_and_other_suffixes(flat):
    write(flat / "val.txt", [f"val/{stem(n)}.jpg\t{index}" for n, index in CLASS.items()])
    assert labels(flat) == CLASS


def test_both_layouts_give_the_same_split(flat, classed):
    write_val(flat)
    one, other = (open_imagenet(str(folder), SETTINGS) for folder in (flat, classed))
    for part in ("calibration", "measured"):
        pairs = list(zip(getattr(one, part), getattr(other, part), strict=True))
        assert all((a.name, a.label) == (b.name, b.label) for a, b in pairs)
        assert all((a.read() == b.read()).all() for a, b in pairs)
    assert one.digest == other.digest
    assert (len(one.calibration), len(one.measured)) == (4, 6)
    assert len({s.label for s in one.calibration}) == 4  # not one class whole


def test_nothing_is_set_aside_without_calibration_batches(classed):
    split = open_imagenet(str(classed), make_request(calibration_batches=0))
    assert (len(split.calibration), len(split.measured)) == (0, 10)


def test_kaggles_solution_with_its_mapping(flat):
    write_solution(flat)
    write_mapping(flat)
    assert labels(flat) == CLASS


def test_kaggles_whole_tree(tmp_path, flat):
    pictures = tmp_path / "ILSVRC" / "Data" / "CLS-LOC" / "val"
    pictures.parent.mkdir(parents=True)
    shutil.move(flat, pictures)
    write_solution(tmp_path)
    write_mapping(tmp_path)
    assert labels(pictures) == CLASS


def test_kaggles_solution_with_the_training_folders_beside(flat):
    write_solution(flat)
    for wordnet_id in IDS:
        (flat.parent / "train" / wordnet_id).mkdir(parents=True)
    assert labels(flat) == CLASS


def test_kaggles_solution_of_all_classes_tells_their_order_itself(tmp_path):
    """The full file names all 1,000 classes."""
    numbers = range(1, 1001)
    rows = [f"{stem(n)},{IDS[1000 - n]} 1 2 3 4" for n in numbers]
    write(tmp_path / "LOC_val_solution.csv", ["ImageId,PredictionString", *rows])
    found = imagenet_labels.find(tmp_path)
    assert found.by_stem == {stem(n): 1000 - n for n in numbers}


def test_kaggles_solution_of_some_classes_is_refused_without_their_order(flat):
    write_solution(flat)
    with pytest.raises(DatasetError, match=r"9 WordNet ids.*LOC_synset_mapping\.txt"):
        open_imagenet(str(flat), SETTINGS)


@pytest.mark.parametrize("name", ["ILSVRC2012_validation_ground_truth.txt", "val.txt"])
def test_the_devkits_numbers_are_recognised_and_refused(flat, name):
    """Also under another name: it is a column of numbers."""
    write_ground_truth(flat)
    (flat / "ILSVRC2012_validation_ground_truth.txt").rename(flat / name)
    with pytest.raises(DatasetError, match=r"ILSVRC2012_ID.*meta\.mat or map_clsloc\.txt"):
        open_imagenet(str(flat), SETTINGS)


def test_the_devkits_numbers_are_translated_by_its_list(flat):
    write_ground_truth(flat)
    write(flat / "map_clsloc.txt", [f"{i} {number} some_name" for number, i in DEVKIT.items()])
    assert labels(flat) == CLASS


def test_the_devkits_numbers_are_translated_by_its_meta_mat(flat):
    """Which also numbers groups of classes, above 1,000. The devkit lies unpacked beside."""
    io = pytest.importorskip("scipy.io", exc_type=ImportError)
    data = flat.parent / "ILSVRC2012_devkit_t12" / "data"
    write_ground_truth(data)
    kinds = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("num_children", "O")]
    rows = [(number, i, 0) for number, i in sorted(DEVKIT.items())] + [(1001, "n00001740", 9)]
    io.savemat(data / "meta.mat", {"synsets": np.array(rows, kinds)[:, None]})
    assert labels(flat) == CLASS


def test_a_damaged_meta_mat_is_named(flat):
    pytest.importorskip("scipy.io", exc_type=ImportError)
    write_ground_truth(flat)
    (flat / "meta.mat").write_bytes(b"x" * 200)
    with pytest.raises(DatasetError, match=r"meta\.mat is not the devkit's"):
        open_imagenet(str(flat), SETTINGS)


def test_meta_mat_without_scipy_says_what_to_install(flat, monkeypatch):
    write_ground_truth(flat)
    (flat / "meta.mat").write_bytes(b"")
    monkeypatch.setattr(imagenet_labels, "find_spec", lambda name: None)
    with pytest.raises(DatasetError, match="pip install scipy"):
        open_imagenet(str(flat), SETTINGS)


def test_fewer_class_folders_are_counted_as_they_are(tmp_path):
    for number, wordnet_id in enumerate(("n02000000", "n01000000", "n03000000")):
        save(tmp_path / "val" / wordnet_id / f"{stem(number)}.JPEG", number)
    split = open_imagenet(str(tmp_path / "val"), make_request(calibration_batches=0))
    assert split.classes == 3
    assert [s.label for s in split.measured] == [1, 0, 2]


def test_a_list_of_all_classes_numbers_fewer_folders(tmp_path):
    save(tmp_path / "val" / IDS[500] / f"{stem(1)}.JPEG", 1)
    write_mapping(tmp_path)
    split = open_imagenet(str(tmp_path / "val"), make_request(calibration_batches=0))
    assert (split.classes, split.measured[0].label) == (1000, 500)


def test_a_folder_outside_the_list_of_classes_is_refused(tmp_path):
    save(tmp_path / "val" / "n99999999" / f"{stem(1)}.JPEG", 1)
    write_mapping(tmp_path)
    with pytest.raises(DatasetError, match="lacks: n99999999"):
        open_imagenet(str(tmp_path / "val"), SETTINGS)


def test_flat_pictures_need_labels(flat):
    with pytest.raises(DatasetError, match=r"no labels .*val\.txt.*LOC_val_solution\.csv"):
        open_imagenet(str(flat), SETTINGS)


def test_a_picture_without_a_label_is_named(flat):
    write_val(flat)
    save(flat / f"{stem(11)}.JPEG", 11)
    with pytest.raises(DatasetError, match=rf"val\.txt has no label for {stem(11)}"):
        open_imagenet(str(flat), SETTINGS)


def test_a_label_without_a_picture_is_named(flat):
    write_val(flat)
    (flat / f"{stem(3)}.JPEG").unlink()
    with pytest.raises(DatasetError, match=rf"names 10 images, but .* lacks {stem(3)}"):
        open_imagenet(str(flat), SETTINGS)


def test_a_picture_that_vanishes_later_names_itself(flat):
    write_val(flat)
    split = open_imagenet(str(flat), SETTINGS)
    (flat / f"{stem(9)}.JPEG").unlink()
    with pytest.raises(CorruptImageError, match=f"{stem(9)}.JPEG is missing"):
        split.measured[-2].read()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a.JPEG 1 2"], "line 1: expected `image index`"),
        (["a.JPEG n01440764"], "line 1: expected `image index`"),
        (["a.JPEG 3", "", "b.JPEG -1"], "line 3: expected `image index`"),
        (["a.JPEG 3", "a.JPEG 4"], "line 2: a second label"),
        (["a.JPEG 1", "b.JPEG 1000"], "count from 1"),
        ([f"{stem(n)} {n}" for n in (1, 50_000)], "numbers the images"),
    ],
)
def test_a_label_file_of_another_form_is_refused_with_its_line(lines, message, flat):
    write(flat / "val.txt", lines)
    with pytest.raises(DatasetError, match=message):
        open_imagenet(str(flat), SETTINGS)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("LOC_val_solution.csv", "a.JPEG 5"),
        ("map_clsloc.txt", "1 n02119789"),
        ("ILSVRC2012_validation_ground_truth.txt", "1001"),
        ("LOC_synset_mapping.txt", "tench"),
    ],
)
def test_other_files_of_another_form_are_refused_with_their_names(file, line, flat):
    if file in ("LOC_val_solution.csv", "LOC_synset_mapping.txt"):
        write_solution(flat)
    else:
        write_ground_truth(flat)
        write(flat / "map_clsloc.txt", [f"{i} {n} x" for n, i in DEVKIT.items()])
    write(flat / file, [line])
    with pytest.raises(DatasetError, match=file.replace(".", r"\.")):
        open_imagenet(str(flat), SETTINGS)


def test_a_binary_label_file_is_refused(flat):
    (flat / "val.txt").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(DatasetError, match=r"val\.txt can't be read"):
        open_imagenet(str(flat), SETTINGS)


def test_pictures_beside_class_folders_are_refused(classed):
    save(classed / f"{stem(20)}.JPEG", 20)
    save(classed / "other" / f"{stem(21)}.JPEG", 21)
    with pytest.raises(DatasetError, match=f"without a class: {stem(20)}.JPEG, other"):
        open_imagenet(str(classed), SETTINGS)


def test_training_pictures_would_calibrate_on_whole_classes(tmp_path):
    for wordnet_id in IDS[:2]:
        save(tmp_path / wordnet_id / f"{wordnet_id}_18.JPEG", 1)
    with pytest.raises(DatasetError, match=f"training images.*--dataset=folder:{tmp_path}"):
        open_imagenet(str(tmp_path), SETTINGS)


def test_a_root_above_the_pictures_points_to_them(flat):
    with pytest.raises(DatasetError, match=f"--dataset=imagenet:{flat}"):
        open_imagenet(str(flat.parent), SETTINGS)


def test_an_empty_folder_and_empty_class_folders_are_refused(tmp_path):
    with pytest.raises(DatasetError, match="holds no images"):
        open_imagenet(str(tmp_path), SETTINGS)
    (tmp_path / IDS[0]).mkdir()
    with pytest.raises(DatasetError, match=r"the 1 class folders .* hold no images"):
        open_imagenet(str(tmp_path), SETTINGS)


def test_more_to_calibrate_than_there_is_names_the_numbers(classed):
    with pytest.raises(DatasetError, match="has 10 images, and 1250 are to calibrate"):
        open_imagenet(str(classed), make_request())
