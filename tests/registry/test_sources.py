"""What a run's measurements are made of: versions and digests, by the names that messages use."""

import dataclasses
import os

from fakes import laboratory as lab, measurements as made

from benchrack.registry.providers import Provider
from benchrack.registry.registry import Registry
from benchrack.registry.sources import code_of, libraries_of, plugins_of, versions_of, weights_of

FACTS = {
    "machine": "b3b6eaffe456",
    "software_torch": "2.14.1",
    "software_torchvision": "0.29.1",
    "software_torch_git": "e2d141d",
    "software_onnxruntime_gpu": "1.31.1",
    "software_pillow": "13.0",
    "software_nvidia_cudnn_cu13": "9.24",
    "software_nvidia_ml_py": "13.6",
}


def test_modules_are_found_by_the_packages_that_bring_them():
    found = versions_of(FACTS, {"torch", "onnxruntime", "PIL"})
    assert found == {"torch": "2.14.1", "onnxruntime_gpu": "1.31.1", "pillow": "13.0"}
    assert libraries_of(FACTS) == {"nvidia_cudnn_cu13": "9.24"}


def test_the_code_of_cases_is_that_of_their_backends_and_models(tmp_path):
    backend = dataclasses.replace(lab.backend("ort-int8"), requires=("onnxruntime",))
    model = dataclasses.replace(lab.MODEL, requires=("PIL",))
    case = made.case(scenario="latency", backend="ort-int8")
    facts = {**FACTS, "call_git_commit": "a" * 40, "call_git_changes": "c0ffee"}
    assert code_of(facts, lab.registry(backend, models=[model]), [case]) == {
        "Benchrack's commit": "a" * 40,
        "Benchrack's uncommitted changes": "c0ffee",
        "onnxruntime_gpu": "1.31.1",
        "pillow": "13.0",
        "nvidia_cudnn_cu13": "9.24",
    }


def plugins(*providers):
    return plugins_of(Registry(provided={}, providers={}, plugins=providers))


def test_a_distribution_has_its_version_and_benchracks_own_are_not_named():
    found = plugins(
        Provider(plugin="pytorch", distribution="benchrack", version="0.1"),
        Provider(plugin="cards", distribution="lab-cards", version="1.2"),
        Provider(plugin="meters", distribution="lab-cards", version="1.2"),
    )
    assert found == {"plugin lab-cards": "1.2"}


def test_conftests_are_told_by_what_is_in_them_and_not_by_where_they_are(tmp_path):
    digests = []
    for folder, text in (("a", "one"), ("b", "one"), ("c", "two")):
        path = tmp_path / folder / "conftest.py"
        path.parent.mkdir()
        path.write_text(text)
        (digest,) = plugins(Provider(plugin=str(path))).values()
        digests.append(digest)
    assert digests[0] == digests[1] != digests[2]


def test_a_conftest_that_is_gone_is_no_error(tmp_path):
    assert plugins(Provider(plugin=str(tmp_path / "conftest.py")))


def test_a_folder_of_weights_changes_with_its_files(tmp_path):
    (tmp_path / "below").mkdir()
    file = tmp_path / "resnet50.pth"
    file.write_text("weights")
    asked = str(tmp_path)
    first = weights_of(["auto", "random", asked])
    assert list(first) == [asked]
    assert weights_of([asked]) == first
    os.utime(file, ns=(1, 1))
    touched = weights_of([asked])
    assert touched != first
    (tmp_path / "vgg16.pth").write_text("weights")
    assert weights_of([asked]) != touched
