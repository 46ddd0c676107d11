"""What plugins provide, by kind and name, and who provided it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pluggy

from benchrack.errors import UnknownNameError
from benchrack.registry import hooks
from benchrack.registry.finding import find_plugins, switch_off
from benchrack.registry.loading import load_plugins
from benchrack.registry.providers import PluginError, Problem, Provider, blamed, reported
from benchrack.vocabulary.backends import Backend
from benchrack.vocabulary.datasets import Dataset
from benchrack.vocabulary.descriptors import Accelerator, Server
from benchrack.vocabulary.meters import Meter
from benchrack.vocabulary.models import Model
from benchrack.vocabulary.provenance import Provenance
from benchrack.vocabulary.scenarios import Scenario

__all__ = ["BUILT_IN", "KINDS", "Problem", "Provider", "Registry", "load_registry"]

BUILT_IN: tuple[str, ...] = (
    "benchrack.plugins.scenarios.throughput",
    "benchrack.plugins.scenarios.latency",
    "benchrack.plugins.scenarios.accuracy",
    "benchrack.plugins.backends.pytorch",
    "benchrack.plugins.backends.onnxruntime",
    "benchrack.plugins.models.torchvision",
    "benchrack.plugins.models.efficientnet_lite",
    "benchrack.plugins.models.digits_cnn",
    "benchrack.plugins.datasets.sample_photos",
    "benchrack.plugins.datasets.digits",
    "benchrack.plugins.datasets.image_folder",
    "benchrack.plugins.datasets.imagenet",
    "benchrack.plugins.datasets.synthetic",
    "benchrack.hardware.plugin",
    "benchrack.hardware.lab",
    "benchrack.plugins.meters.nvml",
    "benchrack.plugins.meters.rapl",
    "benchrack.plugins.provenance.cpu",
    "benchrack.plugins.provenance.host",
    "benchrack.plugins.provenance.accelerators",
    "benchrack.plugins.provenance.software",
    "benchrack.plugins.provenance.call",
)

# hook → the kinds of objects that it returns, each with a `name`
KINDS: Mapping[str, Mapping[str, type]] = {
    "benchrack_backends": {"backend": Backend},
    "benchrack_models": {"model": Model},
    "benchrack_datasets": {"dataset": Dataset},
    "benchrack_hardware": {"accelerator": Accelerator, "server": Server},
    "benchrack_meters": {"meter": Meter},
    "benchrack_provenance": {"provenance": Provenance},
    "benchrack_scenarios": {"scenario": Scenario},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """All that the plugins provide.

    `provided` maps kind → name → object, and `providers` (kind, name) → who provides it; names are
    sorted, but built-in descriptors of hardware come behind all others: of several that name one
    card or server the first counts, so a lab's own; scenarios stand as they came. `plugins` are
    in the order in which they were asked, `disabled` those switched off.
    """

    provided: Mapping[str, Mapping[str, Any]]
    providers: Mapping[tuple[str, str], Provider]
    plugins: tuple[Provider, ...] = ()
    disabled: tuple[Provider, ...] = ()
    problems: tuple[Problem, ...] = ()

    def get(self, kind: str, name: str) -> Any:
        """The object of a kind with that name. Raises UnknownNameError, which lists the known."""
        known = self.provided[kind]
        if name not in known:
            raise UnknownNameError(kind, name, known)
        return known[name]

    def provider_of(self, kind: str, name: str) -> Provider:
        """Who provides it. Raises UnknownNameError."""
        self.get(kind, name)
        return self.providers[kind, name]

    @property
    def backends(self) -> Mapping[str, Backend]:
        return self.provided["backend"]

    def backend(self, name: str) -> Backend:
        found: Backend = self.get("backend", name)
        return found

    @property
    def models(self) -> Mapping[str, Model]:
        return self.provided["model"]

    def model(self, name: str) -> Model:
        found: Model = self.get("model", name)
        return found

    @property
    def datasets(self) -> Mapping[str, Dataset]:
        return self.provided["dataset"]

    def dataset(self, name: str) -> Dataset:
        found: Dataset = self.get("dataset", name)
        return found

    @property
    def accelerators(self) -> Mapping[str, Accelerator]:
        return self.provided["accelerator"]

    def accelerator(self, name: str) -> Accelerator:
        found: Accelerator = self.get("accelerator", name)
        return found

    @property
    def servers(self) -> Mapping[str, Server]:
        return self.provided["server"]

    def server(self, name: str) -> Server:
        found: Server = self.get("server", name)
        return found

    @property
    def meters(self) -> Mapping[str, Meter]:
        return self.provided["meter"]

    @property
    def provenance(self) -> Mapping[str, Provenance]:
        return self.provided["provenance"]

    @property
    def scenarios(self) -> Mapping[str, Scenario]:
        return self.provided["scenario"]

    def scenario(self, name: str) -> Scenario:
        found: Scenario = self.get("scenario", name)
        return found


def load_registry(
    *,
    disabled: Iterable[str] = (),
    conftests: Iterable[object] = (),
    built_in: Sequence[str] = BUILT_IN,
) -> Registry:
    """Find, load and ask all plugins. What is wrong with any of them is in `problems`.

    `disabled` names plugins to switch off (a plugin's name, a distribution's, a built-in module's),
    beside those in BENCHRACK_DISABLE_PLUGINS. `conftests` are conftest.py modules that pytest has
    imported; those without hooks are passed over.
    """
    manager = pluggy.PluginManager("benchrack")
    manager.add_hookspecs(hooks)
    candidates, unreadable = find_plugins(built_in, conftests)
    on, off, unmatched = switch_off(candidates, disabled)
    loaded, broken = load_plugins(on, manager, KINDS)
    offers, wrong = _collect(manager, loaded)
    provided: dict[str, dict[str, Any]] = {kind: {} for kinds in KINDS.values() for kind in kinds}
    for kind, name in sorted(offers, key=lambda key: _place(key, offers[key][1])):
        provided[kind][name], _ = offers[kind, name]
    return Registry(
        provided=provided,
        providers={key: provider for key, (_, provider) in offers.items()},
        plugins=tuple(provider for provider, _ in loaded),
        disabled=tuple(candidate.provider for candidate in off),
        problems=tuple(dict.fromkeys((*unreadable, *unmatched, *broken, *wrong))),
    )


def built_in_scenarios() -> dict[str, Scenario]:
    """The scenarios that come with Benchrack, by name, for those that ask no plugins."""
    own = [module for module in BUILT_IN if ".scenarios." in module]
    return {s.name: s for m in own for s in importlib.import_module(m).benchrack_scenarios()}


def _place(key: tuple[str, str], provider: Provider) -> tuple[bool, str, str]:
    kind, name = key
    built_in = (provider.distribution, provider.plugin) == ("benchrack", "hardware")
    return built_in, kind, "" if kind == "scenario" else name


def _collect(
    manager: pluggy.PluginManager, loaded: Sequence[tuple[Provider, object]]
) -> tuple[dict[tuple[str, str], tuple[Any, Provider]], list[Problem]]:
    """By kind and name, objects and their providers. Each plugin is asked alone, so that one that
    raises takes nobody's answers with it."""
    offers: dict[tuple[str, str], tuple[Any, Provider]] = {}
    problems: list[Problem] = []
    for provider, plugin in loaded:
        others = [other for _, other in loaded if other is not plugin]
        for hook, kinds in KINDS.items():
            items: list[Any] = []
            with reported(provider, problems):
                items = _ask(manager, hook, plugin, others)
            for item in items:
                with reported(provider, problems):
                    kind, name = _identify(item, hook, kinds)
                    if (kind, name) in offers:
                        _, earlier = offers[kind, name]
                        raise _duplicate(f"{kind} {name!r}", provider, earlier)
                    offers[kind, name] = item, provider
    return offers, problems


def _duplicate(what: str, provider: Provider, earlier: Provider) -> PluginError:
    if earlier == provider:
        return PluginError(f"{what} is provided twice; the first counts")
    return PluginError(
        f"{what} dropped: {earlier} provides one of that name",
        f"To use this one, switch the other off with --disable-plugins={earlier.plugin}",
    )


def _ask(
    manager: pluggy.PluginManager, hook: str, plugin: object, others: Sequence[object]
) -> list[Any]:
    """What one plugin returns from one hook; nothing where it doesn't implement it."""
    own = [impl for impl in getattr(manager.hook, hook).get_hookimpls() if impl.plugin is plugin]
    if any(impl.wrapper or impl.hookwrapper for impl in own):
        raise PluginError(f"{hook} is a wrapper: plugins are asked one by one, it has none to wrap")
    if not own:
        return []
    with blamed(f"{hook} raised an error"):
        answers = manager.subset_hook_caller(hook, others)()
    if len(answers) < len(own):  # pluggy leaves out None
        raise PluginError(f"{hook} returned None, not a list; where there is nothing, return []")
    items = []
    for answer in answers:
        if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
            expected = _names(KINDS[hook])
            raise PluginError(f"{hook} returned {_a(answer)}, not a list of {expected}")
        with blamed(f"{hook} raised an error"):  # it may be a generator
            items += list(answer)
    return items


def _identify(item: object, hook: str, kinds: Mapping[str, type]) -> tuple[str, str]:
    """Kind and name of what a hook returned. Raises PluginError where it has none or a bad one."""
    kind = next((kind for kind, cls in kinds.items() if isinstance(item, cls)), None)
    if kind is None:
        raise PluginError(f"{hook} returned {_a(item)} among its items, not {_names(kinds)}")
    name = getattr(item, "name", None)
    if not isinstance(name, str) or not name:
        raise PluginError(f"{hook} returned a {kind} without a name ({name!r})")
    # Names stand in lists on the command line, and before a data set's argument.
    if name != name.lower() or any(c in ":," or c.isspace() for c in name):
        raise PluginError(
            f"{kind} {name!r} dropped: a name is in lower case, without colon, comma or white space"
        )
    return kind, name


def _a(value: object) -> str:
    return f"a value of type {type(value).__name__}"


def _names(kinds: Mapping[str, type]) -> str:
    return " or ".join(cls.__name__ for cls in kinds.values())
