"""Every hook is documented, tested and used by a built-in plugin; the examples of the page work."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import tomllib
import types
from pathlib import Path

import pluggy
import pytest
from fakes.settings import make_request

from benchrack.registry import hooks
from benchrack.registry.registry import BUILT_IN, KINDS, load_registry
from benchrack.vocabulary.backends import PrepareRequest
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.models import LoadedModel, Model, Preprocessing

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text()
EXAMPLE = ROOT / "docs" / "examples" / "numpy_backend.py"

MANAGER = pluggy.PluginManager("benchrack")
MANAGER.add_hookspecs(hooks)
HOOKS = sorted(name for name in vars(MANAGER.hook) if not name.startswith("_"))


def section(hook):
    """The part of the page under the heading of a hook."""
    start = PAGE.index(f"### `{hook}(")
    return re.split(r"\n##+ ", PAGE[start:], maxsplit=1)[0]


def blocks(text, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def as_conftest(source):
    module = types.ModuleType("conftest")
    sys.modules[module.__name__] = module  # where dataclasses look up their annotations
    module.__file__ = "conftest.py"
    exec(compile(source, "docs/plugins.md", "exec"), module.__dict__)
    return module


def example_of(hook):
    """The first example in the section of a hook, loaded as a conftest.py."""
    registry = load_registry(built_in=(), conftests=[as_conftest(blocks(section(hook))[0])])
    assert not [problem for problem in registry.problems if problem.provider is not None]
    return registry


@pytest.mark.parametrize("hook", HOOKS)
def test_the_hook_is_documented_under_its_exact_signature(hook):
    signature = str(inspect.signature(getattr(hooks, hook))).replace("'", "")
    assert f"\n### `{hook}{signature}`\n" in PAGE


def test_no_heading_names_a_hook_that_is_none():
    assert sorted(re.findall(r"^### `(\w+)\(", PAGE, flags=re.MULTILINE)) == HOOKS


@pytest.mark.parametrize("hook", HOOKS)
def test_the_hook_has_a_docstring(hook):
    assert (inspect.getdoc(getattr(hooks, hook)) or "").endswith(".")


@pytest.mark.parametrize("hook", HOOKS)
def test_a_built_in_plugin_uses_the_hook_and_the_page_names_all_that_do(hook):
    users = [m for m in BUILT_IN if hasattr(importlib.import_module(m), hook)]
    assert users
    text = section(hook)
    assert [module for module in users if f"`{module}`" not in text] == []


@pytest.mark.parametrize("hook", HOOKS)
def test_the_hook_has_a_test(hook):
    pattern = re.compile(rf"^def test_hook_{hook}\(", flags=re.MULTILINE)
    files = (ROOT / "tests").rglob("test_*.py")
    assert any(pattern.search(file.read_text()) for file in files)


@pytest.mark.parametrize("hook", HOOKS)
def test_the_example_of_the_hook_provides_something(hook):
    registry = example_of(hook)
    assert any(registry.provided[kind] for kind in KINDS[hook])


def test_the_page_shows_the_backend_that_is_in_the_examples():
    assert blocks(section("benchrack_backends"))[0] == EXAMPLE.read_text()


def test_the_pyproject_of_the_page_has_an_entry_point():
    text, _ = blocks(PAGE, "toml")
    assert tomllib.loads(text)["project"]["entry-points"]["benchrack"] == {"lab": "lab_backends"}


def test_the_data_set_of_the_page_can_be_read():
    np = pytest.importorskip("numpy")
    split = example_of("benchrack_datasets").dataset("stripes").open(None, make_request())
    assert (len(split.calibration), len(split.measured), split.classes) == (50, 50, 2)
    pictures = [sample.read() for sample in (*split.calibration, *split.measured)]
    assert {(p.shape, p.dtype) for p in pictures} == {((224, 224), np.dtype("uint8"))}
    assert len({p.tobytes() for p in pictures}) == 100


def test_the_model_of_the_page_can_be_loaded():
    torch = pytest.importorskip("torch")
    model = example_of("benchrack_models").model("linear")
    loaded = model.load("auto", None)
    assert loaded.digest == model.load("random", None).digest
    assert loaded.module(torch.zeros(2, *model.input_shape)).shape == (2, model.classes)
    assert loaded.multiply_accumulates == 3 * 32 * 32 * 2
    with pytest.raises(Exception, match="linear has random weights only"):
        model.load("torchvision", None)


def request_for(module):
    def load(weights, cache):
        return LoadedModel(
            module=module.eval(),
            weights=weights,
            digest="",
            trained=False,
            parameters=0,
            multiply_accumulates=0,
        )

    model = Model(
        name="chain",
        summary="",
        input_shape=(1, 28, 28),
        classes=10,
        preprocessing=Preprocessing(resize=28, crop=28, mean=(0.0,), std=(1.0,)),
        load=load,
    )
    return PrepareRequest(
        model=model,
        weights="auto",
        device=Device(kind="cpu"),
        batch_size=4,
        threads=1,
        seed=0,
        cache=None,
        calibration=lambda: iter(()),
    )


def test_the_backend_of_the_page_computes_what_torch_computes():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)
    normalization = nn.BatchNorm2d(16)
    normalization.running_mean.normal_()
    normalization.running_var.uniform_(0.5, 2)
    nn.init.normal_(normalization.weight)
    chain = nn.Sequential(
        nn.Conv2d(1, 8, (5, 3), padding=(2, 1)),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=(2, 1), bias=False),
        normalization,
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    backend = example_of("benchrack_backends").backend("numpy-fp32")
    assert backend.unsupported(Device(kind="cpu")) is None
    assert "CUDA" in backend.unsupported(Device(kind="cuda"))
    session = backend.prepare(request_for(chain))
    images = torch.randn(4, 1, 28, 28)
    output = session.fetch(session.run(session.place(images.numpy())))
    session.synchronize()
    assert output.dtype == images.numpy().dtype
    torch.testing.assert_close(torch.from_numpy(output), chain(images).detach())
    session.close()


def test_the_backend_of_the_page_says_what_it_can_not_compute():
    torch = pytest.importorskip("torch")
    backend = example_of("benchrack_backends").backend("numpy-fp32")
    chain = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.GELU())
    with pytest.raises(Exception, match="numpy-fp32 can't compute GELU"):
        backend.prepare(request_for(chain))
