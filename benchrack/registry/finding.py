"""Finds plugins, none of which is imported yet.

They come from three places, in this order: the built-in modules, the entry points of installed
distributions (group `benchrack`, by name of the distribution), and `conftest.py` files of the
user's. Each can be switched off by name before any of its code is imported.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from benchrack.registry.providers import Problem, Provider, blamed, reported

GROUP = "benchrack"
DISABLE_VARIABLE = "BENCHRACK_DISABLE_PLUGINS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A plugin that was found and not yet imported; `aliases` are its other names."""

    provider: Provider
    load: Callable[[], object]
    aliases: tuple[str, ...] = ()


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
