"""What is not installed is a skip with the command that helps on the device at hand."""

import dataclasses

import pytest
from fakes import laboratory, measurements as made

from benchrack.errors import UnsupportedError
from benchrack.execution.running import run_case
from benchrack.registry.requirements import lack, require
from benchrack.vocabulary.devices import Device

CASE = made.case()
NEEDY = {"requires": ("numpy", "no_such_module", "no.such.part"), "extra": "lab"}
OLD, NEW = Device(kind="cuda", name="Tesla P40"), Device(kind="cuda", name="NVIDIA H200")


def remedy(device):
    return "install the old stack" if device == OLD else None


def test_what_is_missing_is_named_with_the_extra_or_the_remedy():
    model = dataclasses.replace(laboratory.MODEL, **NEEDY)
    missing = "needs no_such_module, no.such.part"
    assert lack(model) == f"{missing}: pip install 'benchrack[lab]'"
    assert lack(model, lambda: None) == lack(model)
    assert lack(model, lambda: "do that") == f"{missing}: do that"
    assert lack(dataclasses.replace(model, extra="")) == f"{missing}: install it"
    with pytest.raises(UnsupportedError, match=r"^matrix needs no_such_module.*: do that$"):
        require(model, lambda: "do that")


def test_nothing_is_asked_where_nothing_is_missing():
    def never():
        raise AssertionError("NVML is asked for nothing")

    assert lack(laboratory.MODEL, never) is None
    require(laboratory.MODEL, never)


@pytest.mark.parametrize(
    ("device", "command"),
    [(OLD, "install the old stack"), (NEW, r"pip install 'benchrack\[lab\]'")],
)
def test_a_case_on_an_old_card_names_the_stack_that_serves_it(tmp_path, device, command):
    backend = dataclasses.replace(laboratory.backend(), **NEEDY, remedy=remedy)
    bench = laboratory.bench(tmp_path, backend, device=device)
    with pytest.raises(UnsupportedError, match=rf"^numpy-fp32 needs no_such_module.*: {command}$"):
        run_case(bench, CASE)
    with pytest.raises(UnsupportedError, match=rf"^numpy-fp32 needs no_such_module.*: {command}$"):
        bench.prepare(CASE)


def test_a_model_is_installed_with_its_framework(tmp_path):
    """The model's extra alone would replace the stack that serves the card."""
    backend = dataclasses.replace(laboratory.backend(), remedy=remedy)
    bench = laboratory.bench(tmp_path, backend, device=OLD)
    model = dataclasses.replace(laboratory.MODEL, **NEEDY)
    provided = {**bench.registry.provided, "model": {"matrix": model}}
    registry = dataclasses.replace(bench.registry, provided=provided)
    bench = laboratory.again(bench, registry=registry)
    with pytest.raises(UnsupportedError, match=r"^matrix needs .*: install the old stack$"):
        bench.prepare(CASE)
