"""Finds plugins and loads them one by one, so that a broken one is reported and harms no other.

Plugins come from three places, in this order: the built-in modules, the entry points of installed
distributions (group `benchrack`, by name of the distribution), and `conftest.py` files of the
user's. Each can be switched off by name before any of its code is imported.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from benchrack.errors import BenchrackError, PluginFileError

GROUP = "benchrack"
DISABLE_VARIABLE = "BENCHRACK_DISABLE_PLUGINS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Who provides something: a plugin of an installed distribution.

    `plugin` is the name to switch it off by (empty where only the distribution is known); two
    distributions may have plugins of one name. A conftest.py is named by its path and belongs to
    no distribution: distribution and version are empty.
    """

    plugin: str
    distribution: str = ""
    version: str = ""

    def __str__(self) -> str:
        if not self.distribution:
            return self.plugin
        distribution = f"{self.distribution} {self.version}".strip()
        return f"{distribution} (plugin {self.plugin})" if self.plugin else distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong with a plugin, in one line that names it and says what to do.

    `provider` is None where a name to be switched off belongs to no plugin.
    """

    provider: Provider | None
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A plugin that was found and not yet imported; `aliases` are its other names."""

    provider: Provider
    load: Callable[[], object]
    aliases: tuple[str, ...] = ()


class PluginError(Exception):
    """Something is wrong with one plugin; the message follows the plugin's name.

    `remedy` says what to do: by default, to update the plugin or to switch it off; nothing where
    it is empty.
    """

    def __init__(self, what: str, remedy: str | None = None) -> None:
        super().__init__(what)
        self.remedy = remedy


@contextmanager
def blamed(what: str) -> Iterator[None]:
    """Turn whatever a plugin raises into PluginError, sys.exit() and pytest.skip() included."""
    try:
        yield
    except (KeyboardInterrupt, PluginError):
        raise
    except BenchrackError as error:  # speaks to the user already: a file of theirs, say
        raise PluginError(" ".join(str(error).split()), remedy="") from error
    except BaseException as error:
        raise PluginError(f"{what}: {_describe(error)}") from error


def _describe(error: BaseException) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    if len(text) > 300:
        text = text[:299] + "…"
    machinery = ("<", *importlib.__path__, *pluggy.__path__)
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = frame.f_code.co_filename
        if os.path.dirname(file) == os.path.dirname(__file__):
            break  # our own call: the plugin's code was never reached
        if not file.startswith(machinery):
            return f"{text} ({file}, line {line})"
    return text


@contextmanager
def reported(provider: Provider, problems: list[Problem]) -> Iterator[None]:
    """Turn a PluginError into a problem of the provider, and go on."""
    try:
        yield
    except PluginError as error:
        problems.append(_problem(provider, str(error), error.remedy))


def _problem(provider: Provider, what: str, remedy: str | None = None) -> Problem:
    if remedy is None and provider.plugin and provider.distribution:
        remedy = (
            f"Update {provider.distribution}, or switch the plugin off with "
            f"--disable-plugins={provider.plugin}"
        )
    message = f"{provider}: {what}"
    return Problem(provider=provider, message=f"{message}. {remedy}" if remedy else message)


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
        raise PluginFileError(f"{path} can't be imported: {_describe(error)}") from error
    return module


def find_plugins(
    built_in: Iterable[str], conftests: Iterable[object]
) -> tuple[list[Candidate], list[Problem]]:
    """All plugins there are, none of them imported, in the order in which they are asked."""
    installed, problems = _installed()
    local = sorted(map(_conftest, conftests), key=lambda candidate: candidate.provider.plugin)
    return [*_built_in(built_in), *installed, *local], problems


def _built_in(modules: Iterable[str]) -> Iterator[Candidate]:
    try:
        version = importlib.metadata.version("benchrack")
    except importlib.metadata.PackageNotFoundError:
        version = ""  # a checkout on sys.path that is not installed
    for module in modules:
        # benchrack.plugins.backends.pytorch is "pytorch", benchrack.hardware.plugin is "hardware".
        name = module.removesuffix(".plugin").rpartition(".")[2]
        yield Candidate(
            provider=Provider(plugin=name, distribution="benchrack", version=version),
            load=functools.partial(importlib.import_module, module),
            aliases=(module,),
        )


def _installed() -> tuple[list[Candidate], list[Problem]]:
    found: dict[tuple[str, str], Candidate] = {}
    problems: list[Problem] = []
    # Read one by one: metadata.entry_points() fails for all where one distribution's are malformed.
    for distribution in importlib.metadata.distributions():
        text = distribution.read_text("entry_points.txt") or ""
        if f"[{GROUP}]" not in text:
            continue
        owner = _owner(distribution)
        with reported(owner, problems), blamed("its entry points can't be read, reinstall it"):
            for point in distribution.entry_points.select(group=GROUP):
                candidate = Candidate(
                    provider=replace(owner, plugin=point.name),
                    load=point.load,
                    aliases=(owner.distribution,),
                )
                # The same distribution further down sys.path is shadowed, as its modules are.
                found.setdefault((canonical(owner.distribution), point.name), candidate)
    return [found[key] for key in sorted(found)], problems


def _owner(distribution: importlib.metadata.Distribution) -> Provider:
    metadata = distribution.metadata
    if "Name" not in metadata or "Version" not in metadata:
        folder = distribution.locate_file("")
        return Provider(plugin="", distribution=f"a distribution without a name in {folder}")
    return Provider(plugin="", distribution=metadata["Name"], version=metadata["Version"])


def _conftest(conftest: object) -> Candidate:
    kind = type(conftest)
    name = getattr(conftest, "__file__", None) or f"{kind.__module__}.{kind.__qualname__}"
    return Candidate(provider=Provider(plugin=name), load=lambda: conftest)


def canonical(name: str) -> str:
    """A name as names are compared: `My_Lab.cards` is `my-lab-cards`."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def switch_off(
    candidates: Iterable[Candidate], disabled: Iterable[str]
) -> tuple[list[Candidate], list[Candidate], list[Problem]]:
    """Those that stay on, those switched off, and the names that belong to no plugin.

    `disabled` holds names, or several with commas between; the environment variable adds to them.
    """
    asked = {
        canonical(name): name.strip()
        for text in (*disabled, os.environ.get(DISABLE_VARIABLE, ""))
        for name in text.split(",")
        if name.strip()
    }
    on: list[Candidate] = []
    off: list[Candidate] = []
    known: set[str] = set()
    for candidate in candidates:
        names = {canonical(n) for n in (candidate.provider.plugin, *candidate.aliases)}
        (off if names & asked.keys() else on).append(candidate)
        known |= names
    choices = ", ".join(sorted({candidate.provider.plugin for candidate in (*on, *off)}))
    problems = [
        Problem(
            provider=None,
            message=f"no plugin is named {name!r}, so nothing was switched off by it "
            f"(--disable-plugins, {DISABLE_VARIABLE}). Plugins: {choices}",
        )
        for key, name in asked.items()
        if key not in known
    ]
    return on, off, problems


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
            problems += [_problem(provider, complaint) for complaint in complaints]
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
