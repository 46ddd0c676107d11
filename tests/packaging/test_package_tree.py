"""pyproject.toml lists the packages and data of the tree: an editable install hides omissions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any


def test_every_folder_of_modules_is_listed(root: Path, pyproject: dict[str, Any]) -> None:
    found = {package for package, file in _files(root, pyproject) if file.suffix == ".py"}
    assert sorted(found) == sorted(pyproject["tool"]["setuptools"]["packages"])


def test_every_folder_of_modules_is_a_package(root: Path, pyproject: dict[str, Any]) -> None:
    folders = {file.parent for _, file in _files(root, pyproject) if file.suffix == ".py"}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_every_other_file_is_package_data(root: Path, pyproject: dict[str, Any]) -> None:
    patterns: dict[str, list[str]] = pyproject["tool"]["setuptools"]["package-data"]
    top = pyproject["tool"]["setuptools"]["package-dir"]
    covered = {
        file
        for package, globs in patterns.items()
        for pattern in globs
        for file in (root / top[package]).glob(pattern)
    }
    others = [file for _, file in _files(root, pyproject) if file.suffix != ".py"]
    assert others, "at least the sweeps and the descriptors are data"
    assert [str(file) for file in others if file not in covered] == []


def test_all_brings_every_extra_but_tensorrt(pyproject: dict[str, Any]) -> None:
    extras = pyproject["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = everything.removeprefix("benchrack[").removesuffix("]").split(",")
    assert {*named, "all", "tensorrt"} == set(extras)


def test_only_lower_bounds(pyproject: dict[str, Any]) -> None:
    """A lab pins what it wants; TensorRT's major alone is given by what ONNX Runtime links."""
    project = pyproject["project"]
    extras = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(r for e in extras.values() for r in e)]
    capped = [r for r in requirements if {"<", "=="} & set(_operators(r))]
    assert [r for r in capped if not r.startswith("tensorrt")] == []


def _operators(requirement: str) -> Iterator[str]:
    version = requirement.partition(";")[0]
    for clause in version.split(","):
        yield from (op for op in ("<", "==", "~=") if op in clause)


def _files(root: Path, pyproject: dict[str, Any]) -> Iterator[tuple[str, Path]]:
    """Every file below the packages' folders, with the name of the package that it lies in."""
    for package, folder in pyproject["tool"]["setuptools"]["package-dir"].items():
        for file in sorted((root / folder).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                inner = file.parent.relative_to(root / folder).parts
                yield ".".join((package, *inner)), file
