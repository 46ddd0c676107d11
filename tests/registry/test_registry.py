"""The plugin registry: what it finds, switches off, isolates, and says about it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pluggy
import pytest
from fakes import laboratory

from benchrack import hookimpl
from benchrack.errors import DescriptorError, UnknownNameError
from benchrack.registry import hooks
from benchrack.registry.finding import DISABLE_VARIABLE
from benchrack.registry.providers import Provider
from benchrack.registry.registry import BUILT_IN, KINDS, load_registry
from benchrack.vocabulary.backends import Backend
from benchrack.vocabulary.datasets import Dataset
from benchrack.vocabulary.descriptors import Accelerator, Cited, Server, match

DISTRIBUTIONS = Path(__file__).parent / "distributions"
LAB = Provider(plugin="lab", distribution="lab-backends", version="1.2")


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    monkeypatch.delenv(DISABLE_VARIABLE, raising=False)


@pytest.fixture
def install(monkeypatch):
    """Puts folders of fake distributions on sys.path, the first one first; no pip."""
    before = set(sys.modules)

    def put(*folders):
        for folder in reversed(folders):
            monkeypatch.syspath_prepend(DISTRIBUTIONS / folder)

    yield put
    for name in set(sys.modules) - before:
        if str(DISTRIBUTIONS) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


def load(*conftests, built_in=(), **options):
    return load_registry(built_in=built_in, conftests=conftests, **options)


def lines(registry):
    return [str(problem) for problem in registry.problems]


def backend(name, summary=""):
    return Backend(name=name, framework="Fake", precision="fp32", summary=summary, prepare=print)


def providing(hook, *items):
    """A conftest.py that returns the items from one hook."""
    module = types.ModuleType("conftest")
    module.__file__ = f"{hook}/conftest.py"
    setattr(module, hook, hookimpl(lambda: list(items)))
    return module


# Each hook


def test_hook_benchrack_backends():
    registry = load(providing("benchrack_backends", backend("b-fp32"), backend("a-fp32")))
    assert list(registry.backends) == ["a-fp32", "b-fp32"]
    assert registry.backend("b-fp32").framework == "Fake"
    assert not registry.problems


def test_hook_benchrack_models():
    model = dataclasses.replace(laboratory.MODEL, name="tiny")
    registry = load(providing("benchrack_models", model))
    assert registry.models == {"tiny": model}
    assert registry.model("tiny") is model


def test_hook_benchrack_datasets():
    dataset = Dataset(name="photos", summary="", open=print)
    registry = load(providing("benchrack_datasets", dataset))
    assert registry.datasets == {"photos": dataset}
    assert registry.dataset("photos") is dataset


def test_hook_benchrack_hardware():
    """One hook, two kinds; a card and a server may share a name."""
    names = Cited(("X1",), "nobody", "D")
    card = Accelerator(name="x1", title="X1", vendor="X", device_names=names)
    server = Server(name="x1", title="X1 server", vendor="X", dmi_names=names)
    registry = load(providing("benchrack_hardware", server, card))
    assert registry.accelerators == {"x1": card}
    assert registry.servers == {"x1": server}
    assert registry.accelerator("x1") is card
    assert registry.server("x1") is server
    assert not registry.problems


def test_a_labs_own_descriptor_goes_before_a_built_in_one(tmp_path, monkeypatch):
    """Whatever their names: from a file, and from a conftest.py or a plugin."""
    built_in = ("benchrack.hardware.plugin", "benchrack.hardware.lab")
    own = """
        kind = "accelerator"
        title = "Our P4"
        vendor = "NVIDIA"
        device_names = { value = ["Tesla P4"], source = "us", confidence = "A" }
        [sources]
        us = "read on our card"
    """
    (tmp_path / "zz-our-p4.toml").write_text(textwrap.dedent(own))
    monkeypatch.setenv("BENCHRACK_HARDWARE_PATH", str(tmp_path))
    names = Cited(("Tesla P40",), "us", "A")
    card = Accelerator(name="zz-our-p40", title="Our P40", vendor="NVIDIA", device_names=names)
    registry = load(providing("benchrack_hardware", card), built_in=built_in)
    assert not registry.problems
    known = list(registry.accelerators)
    assert known[:2] == ["zz-our-p4", "zz-our-p40"]
    assert known[2:] == sorted(known[2:])
    for name, found in (("Tesla P4", "zz-our-p4"), ("Tesla P40", "zz-our-p40")):
        descriptor, problem = match(name, None, list(registry.accelerators.values()))
        assert descriptor is not None
        assert descriptor.name == found
        assert "the first is used" in problem


def test_every_hook_has_its_kinds_and_kinds_are_unique():
    manager = pluggy.PluginManager("benchrack")
    manager.add_hookspecs(hooks)
    assert set(KINDS) == {name for name in vars(manager.hook) if not name.startswith("_")}
    kinds = [kind for by_kind in KINDS.values() for kind in by_kind]
    assert len(kinds) == len(set(kinds))


# Where plugins come from


def test_a_distribution_provides_through_its_entry_point(install):
    install("working")
    registry = load()
    assert list(registry.backends) == ["lab-fp32"]
    assert list(registry.datasets) == ["lab-photos"]
    assert registry.plugins == (LAB,)
    assert registry.provider_of("backend", "lab-fp32") == LAB
    assert str(LAB) == "lab-backends 1.2 (plugin lab)"
    assert not registry.problems


@pytest.mark.parametrize("order", [("working", "working_older"), ("working", "working")])
def test_the_first_copy_on_the_path_counts(install, order):
    install(*order)
    registry = load()
    assert registry.plugins == (LAB,)
    assert not registry.problems


def test_built_ins_go_by_short_names():
    registry = load(
        built_in=["benchrack.plugins.backends.absent", "benchrack.absent.plugin"],
        disabled=["benchrack.plugins.backends.absent", "absent"],
    )
    assert [p.plugin for p in registry.disabled] == ["absent", "absent"]
    assert {p.distribution for p in registry.disabled} == {"benchrack"}


def test_a_module_counts_as_built_in(install):
    install("working")
    registry = load(built_in=["lab_backends"], disabled=["lab"])
    assert registry.provider_of("backend", "lab-fp32").distribution == "benchrack"
    assert not registry.problems


def test_a_conftest_without_hooks_is_passed_over():
    conftest = types.ModuleType("conftest")
    conftest.__file__ = "conftest.py"
    conftest.helper = conftest.pytest_configure = lambda: None
    registry = load(conftest)
    assert registry.plugins == ()
    assert registry.problems == ()


def test_a_conftest_is_named_by_its_path():
    conftest = providing("benchrack_backends", backend("Mine"))
    (line,) = lines(load(conftest))
    assert line.startswith("benchrack_backends/conftest.py: backend 'Mine' dropped")
    assert "--disable-plugins" not in line  # the remedy is to correct the file


def test_an_object_can_be_a_conftest():
    class Plugin:
        @hookimpl
        def benchrack_backends(self):
            return (backend("mine"),)

    registry = load(Plugin())
    assert registry.provider_of("backend", "mine").plugin.endswith("Plugin")


def test_order_is_that_of_the_distributions_names(install):
    install("same_plugin_name", "duplicate", "working")
    order = [provider.distribution for provider in load().plugins]
    assert order == ["lab-backends", "other-lab", "second-lab"]


# A broken plugin is reported, and the others still work


BROKEN = {
    "import_error": ("broken-import 0.3 (plugin broken)", "can't be imported: ModuleNotFound"),
    "raising_hook": (
        "raising-hook 0.4 (plugin raising)",
        "RuntimeError: no licence found on",
        "benchrack_backends raised an error",
    ),
    "unknown_hook": (
        "unknown-hook 0.5 (plugin typo)",
        "unknown hook benchrack_backend, did",
        "benchrack_models is not marked",
    ),
    "wrong_argument": ("wrong-argument 0.6 (plugin argument)", "Argument(s) {'cache'}"),
    "wrong_type": (  # two strings among the data sets are one mistake
        "wrong-type 0.7 (plugin types)",
        "type Backend, not a list of Backend",
        "benchrack_models returned None",
        "type str among its items, not Dataset",
        "not a list of Accelerator or Server",
    ),
    "no_hooks": ("no-hooks 0.9 (plugin empty)", "has no hook: mark its functions with"),
}
"""The plugin of each folder, and what is said of it: each mistake once."""


@pytest.mark.parametrize("folder", BROKEN)
def test_a_broken_plugin_harms_no_other(install, folder):
    distribution, *mistakes = BROKEN[folder]
    install(folder, "working")
    registry = load(providing("benchrack_backends", backend("mine")))
    assert list(registry.backends) == ["lab-fp32", "mine"]
    assert len(registry.problems) == len(mistakes)
    name = distribution.rpartition(" ")[2].removesuffix(")")
    for mistake in mistakes:
        (line,) = [line for line in lines(registry) if mistake in line]
        assert line.startswith(distribution)
        assert "\n" not in line
        assert line.endswith(f"or switch the plugin off with --disable-plugins={name}")
    assert all(problem.provider.distribution in str(problem) for problem in registry.problems)


@pytest.mark.parametrize("folder", ["raising_hook", "unknown_hook", "wrong_type", "bad_names"])
def test_what_is_sound_in_a_broken_plugin_still_counts(install, folder):
    install(folder)
    assert list(load().datasets) == ["survivor"]


def test_a_hook_that_raises_half_way_gives_nothing(install):
    install("raising_hook")
    registry = load()
    assert not registry.backends
    assert any("SystemExit: 3" in line for line in lines(registry))


def test_the_place_of_an_error_is_named(install):
    install("raising_hook", "import_error")
    registry = load()
    assert any("raising_hook.py, line 14)" in line for line in lines(registry))
    assert any("broken_import.py, line 3)" in line for line in lines(registry))


def test_an_entry_point_to_a_module_that_is_absent(tmp_path, monkeypatch):
    info = tmp_path / "gone-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gone\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[benchrack]\ngone = gone_away\n")
    monkeypatch.syspath_prepend(tmp_path)
    (line,) = lines(load())
    # No place: the plugin's own code was never reached.
    assert "ModuleNotFoundError: No module named 'gone_away'. Update gone" in line


def test_malformed_entry_points_name_their_distribution(tmp_path, monkeypatch, install):
    install("working")
    for name, metadata in [("a", "Metadata-Version: 2.1\nName: a\nVersion: 1\n"), ("b", "")]:
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(metadata)
        (info / "entry_points.txt").write_text("[benchrack]\nno equals sign\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = load()
    assert list(registry.backends) == ["lab-fp32"]
    first, second = sorted(lines(registry))
    assert first.startswith("a 1: its entry points can't be read, reinstall it")
    assert second.startswith(f"a distribution without a name in {tmp_path}: its entry points")


def test_a_syntax_error_names_file_and_line(tmp_path, monkeypatch):
    (tmp_path / "unfinished_plugin.py").write_text("\ndef benchrack_backends(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    (line,) = lines(load(built_in=["unfinished_plugin"]))
    assert "SyntaxError" in line
    assert "unfinished_plugin.py, line 2" in line


def test_skip_at_import_is_reported(tmp_path, monkeypatch):
    """pytest.skip raises something that is no Exception; it must not skip the whole run."""
    (tmp_path / "skipping_plugin.py").write_text("import pytest\npytest.importorskip('nobody')\n")
    monkeypatch.syspath_prepend(tmp_path)
    (line,) = lines(load(built_in=["skipping_plugin"]))
    assert "can't be imported: Skipped" in line


def test_keyboard_interrupt_is_not_held_back():
    def interrupted():
        raise KeyboardInterrupt

    conftest = types.ModuleType("conftest")
    conftest.benchrack_models = hookimpl(interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(conftest)


def test_an_error_that_speaks_to_the_user_is_left_as_it_is():
    def malformed():
        raise DescriptorError("cards/x1.toml, line 3: tdp is not a number")

    conftest = types.ModuleType("conftest")
    conftest.__file__ = "conftest.py"
    conftest.benchrack_hardware = hookimpl(malformed)
    assert lines(load(conftest)) == ["conftest.py: cards/x1.toml, line 3: tdp is not a number"]


def test_long_messages_are_cut():
    def wordy():
        raise ValueError("x" * 5000)

    conftest = types.ModuleType("conftest")
    conftest.benchrack_models = hookimpl(wordy)
    (line,) = lines(load(conftest))
    assert len(line) < 600
    assert "…" in line


def test_a_plugin_without_hash_is_reported():
    """pluggy keeps plugins in sets; such a one would fail for all."""
    plugin = types.SimpleNamespace(benchrack_backends=hookimpl(lambda: [backend("mine")]))
    registry = load(plugin, providing("benchrack_backends", backend("theirs")))
    assert list(registry.backends) == ["theirs"]
    assert "unhashable" in lines(registry)[0]


def test_a_wrapper_is_refused():
    @hookimpl(wrapper=True)
    def wrapper():
        return (yield)

    conftest = types.ModuleType("conftest")
    conftest.benchrack_backends = wrapper
    registry = load(conftest, providing("benchrack_backends", backend("mine")))
    assert list(registry.backends) == ["mine"]
    assert "benchrack_backends is a wrapper" in lines(registry)[0]


def test_an_empty_answer_is_no_problem():
    assert not load(providing("benchrack_backends")).problems


# Names


def test_bad_names_are_dropped(install):
    install("bad_names")
    registry = load()
    assert list(registry.datasets) == ["survivor"]
    assert len(registry.problems) == 7
    for name in ("'Photos'", "'photos:large'", "'a,b'", "'my photos'", r"'tab\t'"):
        assert any(f"dataset {name} dropped" in line for line in lines(registry))


def test_a_duplicate_is_dropped_and_names_both(install):
    install("duplicate", "working")
    registry = load()
    assert registry.backend("lab-fp32").summary == "1.2"
    assert registry.provider_of("backend", "lab-fp32") == LAB
    other, own = lines(registry)
    assert other.startswith("second-lab 2.0 (plugin second): backend 'lab-fp32' dropped: ")
    assert "dropped: lab-backends 1.2 (plugin lab) provides one of that name" in other
    assert other.endswith("switch the other off with --disable-plugins=lab")
    assert own.startswith("second-lab 2.0 (plugin second): backend 'second-fp32' is provided twice")
    assert list(registry.backends) == ["lab-fp32", "second-fp32"]


def test_a_built_in_is_never_displaced(install):
    install("working", "duplicate")
    registry = load(
        providing("benchrack_backends", backend("lab-fp32")),
        built_in=["second_lab"],
        disabled=["second"],
    )
    assert registry.backend("lab-fp32").summary == "2.0"
    assert registry.provider_of("backend", "lab-fp32").distribution == "benchrack"
    assert [p.provider.plugin for p in registry.problems] == [
        "second_lab",  # its own repetition
        "lab",
        "benchrack_backends/conftest.py",
    ]


def test_two_plugins_of_one_name(install):
    """Both are on; the name switches off both, a distribution's name its own."""
    install("same_plugin_name", "working")
    assert list(load().backends) == ["lab-fp32", "other-fp32"]
    assert list(load(disabled=["lab-backends"]).backends) == ["other-fp32"]
    assert list(load(disabled=["other-lab"]).backends) == ["lab-fp32"]
    assert list(load(disabled=["lab"]).backends) == []
    assert not load().problems


def test_one_object_twice(install):
    install("working")
    registry = load(built_in=["lab_backends"])
    (line,) = lines(registry)
    assert "dropped, as it is the same object as benchrack" in line
    assert list(registry.backends) == ["lab-fp32"]


@pytest.mark.parametrize("kind", ["backend", "model", "dataset", "accelerator", "server"])
def test_an_unknown_name_lists_the_known(kind):
    registry = load(providing("benchrack_backends", backend("lab-fp32"), backend("lab-int8")))
    with pytest.raises(UnknownNameError, match=f"unknown {kind} 'lab-fp23'") as caught:
        getattr(registry, kind)("lab-fp23")
    with pytest.raises(UnknownNameError):
        registry.provider_of(kind, "lab-fp23")
    known = "lab-fp32, lab-int8" if kind == "backend" else "none is registered"
    assert known in str(caught.value)


# Switching off


@pytest.mark.parametrize("name", ["broken", "broken-import", "Broken_Import", " broken "])
@pytest.mark.parametrize("by", ["option", "variable"])
def test_a_plugin_is_switched_off_before_it_is_imported(install, monkeypatch, name, by):
    """By its own name, or by its distribution's; the module would raise when imported."""
    install("import_error", "working")
    if by == "variable":
        monkeypatch.setenv(DISABLE_VARIABLE, name)
    registry = load(disabled=[name] if by == "option" else [])
    assert not registry.problems
    assert registry.plugins == (LAB,)
    assert [p.distribution for p in registry.disabled] == ["broken-import"]


def test_option_and_variable_add_up(install, monkeypatch):
    install("import_error", "working", "duplicate")
    monkeypatch.setenv(DISABLE_VARIABLE, "broken, ,lab,")
    registry = load(disabled=["second,broken", ""])
    assert registry.plugins == ()
    assert [p.plugin for p in registry.disabled] == ["broken", "lab", "second"]
    assert not registry.problems


def test_a_name_that_matches_nothing_is_reported(install):
    install("working")
    registry = load(disabled=["tensorrt"])
    (problem,) = registry.problems
    assert problem.provider is None
    assert "no plugin is named 'tensorrt'" in problem.message
    assert "Plugins: lab" in problem.message
    assert registry.plugins == (LAB,)


# The built-in plugins


def test_built_ins_load_without_problems_or_frameworks():
    """`benchrack list` and `pytest --collect-only` are instant: nothing heavy is imported."""
    code = (
        "import sys\n"
        "from benchrack.registry.registry import load_registry\n"
        "registry = load_registry()\n"
        "heavy = {'numpy', 'torch', 'onnxruntime', 'onnx', 'PIL', 'pynvml', 'foolbox', 'mlxtend'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "own = [p for p in registry.problems if p.provider.distribution == 'benchrack']\n"
        "print(*own, sep='\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["[]", "", ""]


def test_short_names_of_built_ins_are_unique():
    registry = load_registry(disabled=BUILT_IN)
    names = [p.plugin for p in registry.disabled]
    assert len(names) == len(set(names)) == len(BUILT_IN)
    assert "pytorch" in names
    assert "hardware" in names
