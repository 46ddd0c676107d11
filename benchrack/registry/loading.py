"""Loads plugins one by one, so that a broken one is reported and harms no other."""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from benchrack.errors import PluginFileError
from benchrack.registry.finding import Candidate
from benchrack.registry.providers import (
    PluginError,
    Problem,
    Provider,
    blamed,
    describe,
    problem,
    reported,
)


def load_file(path: str) -> ModuleType:
    """A file of plugins, such as a conftest.py, as a module of a name of its own.

    Raises PluginFileError where it can't be read or imported.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise PluginFileError(f"{path} can't be read: {error.strerror}") from error
    # By its content: other machines of a run have it in another folder.
    name = f"benchrack_plugins_{hashlib.sha256(content).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginFileError(f"{path} is no file of Python code (.py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look up what their annotations mean
    if (folder := str(Path(path).resolve().parent)) not in sys.path:
        sys.path.append(folder)  # as pytest does, for modules beside it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise PluginFileError(f"{path} can't be imported: {describe(error)}") from error
    return module


def load_plugins(
    candidates: Iterable[Candidate], manager: pluggy.PluginManager, hooks: Collection[str]
) -> tuple[list[tuple[Provider, object]], list[Problem]]:
    """Import and register plugins. A conftest.py without hooks is none, and is left out.

    One that can't be imported or registered is dropped whole; with an unknown hook, or one that
    lacks its mark, only that hook is.
    """
    loaded: list[tuple[Provider, object]] = []
    problems: list[Problem] = []
    for candidate in candidates:
        provider = candidate.provider
        with reported(provider, problems):
            with blamed("can't be imported"):
                plugin = candidate.load()
            with blamed("can't be registered"):
                implemented, complaints = _inspect(plugin, manager, hooks)
            problems += [problem(provider, complaint) for complaint in complaints]
            if implemented:
                _register(plugin, provider, manager, loaded)
                loaded.append((provider, plugin))
            elif provider.distribution and not complaints:
                raise PluginError("has no hook: mark its functions with @benchrack.hookimpl")
    return loaded, problems


def _inspect(
    plugin: object, manager: pluggy.PluginManager, hooks: Collection[str]
) -> tuple[set[str], list[str]]:
    """The hooks that a plugin implements, and what is wrong with those it means to implement."""
    implemented, complaints = set(), []
    for attribute in dir(plugin):
        options: Any = manager.parse_hookimpl_opts(plugin, attribute)
        if options is None:
            if attribute in hooks and inspect.isroutine(getattr(plugin, attribute)):
                complaints.append(f"{attribute} is not marked with @benchrack.hookimpl: not called")
            continue
        hook = options.get("specname") or attribute
        if hook in hooks or options.get("optionalhook"):
            implemented.add(hook)
        else:
            near = difflib.get_close_matches(hook, hooks, n=1)
            hint = f", did you mean {near[0]}?" if near else ""
            complaints.append(f"unknown hook {hook}{hint} (hooks: {', '.join(sorted(hooks))})")
    return implemented, complaints


def _register(
    plugin: object,
    provider: Provider,
    manager: pluggy.PluginManager,
    loaded: Sequence[tuple[Provider, object]],
) -> None:
    for other, earlier in loaded:
        if earlier is plugin:
            raise PluginError(f"dropped, as it is the same object as {other}")
    name = str(provider)  # unlike the plugin's own name, of one distribution only
    with blamed("can't be registered"):
        hash(plugin)  # pluggy keeps plugins in sets: one without a hash would fail for all
        try:
            manager.register(plugin, name)
        except BaseException:
            if manager.has_plugin(name):  # pluggy before 1.7 leaves it half registered
                manager.unregister(name=name)
            raise
