"""What a run's measurements are made of: frameworks, plugins, files of weights."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchrack.errors import WeightsError
from benchrack.registry.registry import Registry
from benchrack.vocabulary.cases import Case

DIGITS = 12
# CUDA's libraries, which frameworks load without asking for them by name.
LIBRARIES = ("software_nvidia_cu", "software_nvidia_nccl", "software_tensorrt")
# Modules that are not called as the package that brings them.
PACKAGES = {"PIL": "pillow"}


def modules_of(registry: Registry, cases: Iterable[Case]) -> set[str]:
    """The modules that the backends and models of some cases need."""
    return {
        module
        for case in cases
        if case.model
        for provided in (registry.backend(case.backend), registry.model(case.model))
        for module in provided.requires
    }


def versions_of(facts: Mapping[str, Any], modules: Iterable[str]) -> dict[str, Any]:
    """Versions of the packages that bring modules, of a run's flat facts: `onnxruntime` may be
    `onnxruntime_gpu`."""
    names = "|".join(re.escape(PACKAGES.get(module, module)) for module in modules)
    package = re.compile(rf"software_({names})(_gpu|_cpu|_cu\d+)?")
    return _software(facts, lambda key: package.fullmatch(key) is not None)


def libraries_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Versions of CUDA's libraries that are packages."""
    return _software(facts, lambda key: key.startswith(LIBRARIES))


def code_of(facts: Mapping[str, Any], registry: Registry, cases: Iterable[Case]) -> dict[str, Any]:
    """The code that cases depend on, by its name in a message."""
    return {
        "Benchrack's commit": facts.get("call_git_commit"),
        "Benchrack's uncommitted changes": facts.get("call_git_changes"),
        **versions_of(facts, modules_of(registry, cases)),
        **libraries_of(facts),
        **plugins_of(registry),
    }


def _software(facts: Mapping[str, Any], of: Callable[[str], bool]) -> dict[str, Any]:
    return {key.removeprefix("software_"): value for key, value in facts.items() if of(key)}


def plugins_of(registry: Registry) -> dict[str, str]:
    """The version of each distribution that brings plugins, by its name, and one digest of all
    conftest.py with hooks. Built-in plugins are Benchrack's; what a conftest.py imports is not
    looked at."""
    versions: dict[str, str] = {}
    conftests = []
    for provider in registry.plugins:
        if not provider.distribution:
            conftests.append(provider.plugin)
        elif provider.distribution != "benchrack":
            versions[f"plugin {provider.distribution}"] = provider.version
    if conftests:
        versions["plugins of conftest.py"] = _digest(_content(Path(path)) for path in conftests)
    return versions


def weights_of(asked: Iterable[str]) -> dict[str, str]:
    """For each folder that `--weights` names a digest of its files: their names, sizes and times of
    change, not what is in them, which may be gigabytes.

    Raises WeightsError for one that is not there.
    """
    folders = {weights: Path(weights).expanduser() for weights in sorted(set(asked))}
    for weights, path in folders.items():
        if path.is_absolute() and not path.exists():
            raise WeightsError(f"--weights={weights}: there is no such file or folder")
    return {weights: _files(path) for weights, path in folders.items() if path.is_dir()}


def _files(folder: Path) -> str:
    found = []
    for path in sorted(folder.iterdir()):
        if path.is_file():
            stat = path.stat()
            found.append(f"{path.name} {stat.st_size} {stat.st_mtime_ns}".encode())
    return _digest(found)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # an object that stands for a module, or a file that is gone
        return str(path).encode()


def _digest(parts: Iterable[bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()[:DIGITS]
