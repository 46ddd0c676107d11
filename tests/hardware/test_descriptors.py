"""Loading descriptors: what is right is kept whole, what is wrong is named with its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchrack.errors import DescriptorError
from benchrack.hardware import descriptors
from benchrack.vocabulary.descriptors import Accelerator, Server

CARD = """\
kind = "accelerator"
title = "Lab Card"
vendor = "Lab"

device_names = { value = ["Lab Card X"], source = "sheet", confidence = "A" }
pci_ids = { value = ["abcd"], source = "sheet", confidence = "A" }
compute_capability = { value = "7.5", source = "sheet", confidence = "A" }
notes = [
    { value = "Built on a Sunday.", source = "sheet", confidence = "C" },
]

[figures]
fp32_tflops = { value = 8, source = "sheet", confidence = "B", note = "7.9 elsewhere" }
tdp_w = { value = 70.5, source = "sheet", confidence = "A" }

[sources]
sheet = "The lab's data sheet, page 3"
"""

SERVER = """\
kind = "server"
title = "Lab Server"
vendor = "Lab"
dmi_names = { value = ["LS-1"], source = "sheet", confidence = "A" }

[figures]
sockets = { value = 2, source = "sheet", confidence = "A" }

[configurations.wide]
accelerator = { value = "Lab Card X", source = "sheet", confidence = "A" }
accelerator_count = { value = 8, source = "sheet", confidence = "A" }

[sources]
sheet = "The lab's data sheet, page 4"
"""


def card(folder: Path, text: str = CARD, name: str = "lab-card.toml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_card_is_read_whole(tmp_path):
    loaded = descriptors.load_file(card(tmp_path))
    assert isinstance(loaded, Accelerator)
    assert (loaded.name, loaded.title, loaded.vendor) == ("lab-card", "Lab Card", "Lab")
    assert loaded.device_names.value == ("Lab Card X",)
    assert loaded.pci_ids is not None
    assert loaded.pci_ids.value == ("abcd",)
    assert loaded.memory_type is None
    assert list(loaded.figures) == ["fp32_tflops", "tdp_w"]
    fp32 = loaded.figures["fp32_tflops"]
    assert (fp32.value, fp32.confidence, fp32.note) == (8, "B", "7.9 elsewhere")
    assert fp32.source == "The lab's data sheet, page 3"
    assert loaded.notes[0].value == "Built on a Sunday."


def test_a_server_is_read_whole(tmp_path):
    loaded = descriptors.load_file(card(tmp_path, SERVER, "lab-server.toml"))
    assert isinstance(loaded, Server)
    assert loaded.dmi_names.value == ("LS-1",)
    (wide,) = loaded.configurations
    assert wide.name == "wide"
    assert wide.accelerator_count is not None
    assert wide.accelerator_count.value == 8
    assert wide.cpu is None


def test_peak_is_found_by_arithmetic(tmp_path):
    loaded = descriptors.load_file(card(tmp_path))
    assert isinstance(loaded, Accelerator)
    assert loaded.peak("fp32") is loaded.figures["fp32_tflops"]
    assert loaded.peak("int8") is None
    assert loaded.peak("decimal") is None


WRONG = {
    "misspelt figure": (
        ("fp32_tflops =", "fp32_tflop ="),
        "line 13, figures.fp32_tflop: unknown key 'fp32_tflop'. Did you mean 'fp32_tflops'?",
    ),
    "misspelt key": (
        ("pci_ids =", "pci_idz ="),
        "line 6, pci_idz: unknown key 'pci_idz'. Did you mean",
    ),
    "unknown key in a figure": (
        ('confidence = "B", note', 'confidence = "B", page = 3, note'),
        "line 13, figures.fp32_tflops.page: unknown; known are value, source",
    ),
    "absent source": (
        ('value = 70.5, source = "sheet",', "value = 70.5,"),
        "line 14, figures.tdp_w: has no source",
    ),
    "unknown source": (
        ('70.5, source = "sheet"', '70.5, source = "sheat"'),
        "line 14, figures.tdp_w.source: 'sheat' is not a key of [sources], which has sheet",
    ),
    "bare number": (
        ('{ value = 70.5, source = "sheet", confidence = "A" }', "70.5"),
        "line 14, figures.tdp_w: must be a table with value, source and confidence; found 70.5",
    ),
    "text for a number": (("70.5", '"70 W"'), "line 14, figures.tdp_w.value: must be a number"),
    "boolean for a number": (("70.5", "true"), "line 14, figures.tdp_w.value: must be a number"),
    "negative number": (("70.5", "-1"), "line 14, figures.tdp_w.value: must be finite and not neg"),
    "not a number": (("70.5", "nan"), "line 14, figures.tdp_w.value: must be finite"),
    "wrong confidence": (
        ('confidence = "C"', 'confidence = "sure"'),
        "line 8, notes.confidence: must be A, B, C or D; found 'sure'",
    ),
    "wrong capability": (('"7.5"', "7.5"), "line 7, compute_capability.value: must be a text"),
    "wrong PCI id": (('"abcd"', '"0xABCD"'), "line 6, pci_ids.value: must be PCI device ids"),
    "name instead of a list": (('["Lab Card X"]', '"Lab Card X"'), "line 5, device_names.value"),
    "empty list": (('["Lab Card X"]', "[]"), "line 5, device_names.value: must be a list of texts"),
    "absent title": (('title = "Lab Card"\n', ""), ", title: is required and absent"),
    "empty title": (('"Lab Card"', '" "'), "line 2, title: must be a text that is not empty"),
    "wrong kind": (('"accelerator"', '"gpu"'), 'line 1, kind: must be "accelerator" or "server"'),
    "empty citation": (
        ('"The lab\'s data sheet, page 3"', '""'),
        "line 17, sources.sheet: must be a text that is not empty",
    ),
    "figures is no table": (
        ("[figures]", "[[figures]]"),
        "line 12, figures: must be a table",
    ),
    "broken TOML": (("[figures]", "[figures"), "is not TOML, "),
    "key twice": (("tdp_w", "fp32_tflops"), "is not TOML, "),
}


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_named_with_file_key_and_line(tmp_path, change, message):
    assert change[0] in CARD
    path = card(tmp_path, CARD.replace(*change))
    with pytest.raises(DescriptorError) as raised:
        descriptors.load_file(path)
    assert message in str(raised.value)
    assert str(raised.value).startswith(str(path))


def test_a_mistake_in_a_configuration_is_named(tmp_path):
    path = card(tmp_path, SERVER.replace("accelerator_count =", "count ="))
    with pytest.raises(DescriptorError, match=r"line 11, configurations\.wide\.count: unknown key"):
        descriptors.load_file(path)


def test_a_file_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "lab-card.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DescriptorError, match=r"lab-card\.toml is not TOML"):
        descriptors.load_file(path)


def test_a_file_that_is_absent_is_named(tmp_path):
    with pytest.raises(DescriptorError, match=r"absent\.toml can't be read"):
        descriptors.load_file(tmp_path / "absent.toml")


def test_a_file_name_that_is_no_name_is_refused(tmp_path):
    with pytest.raises(DescriptorError, match="file name is made of"):
        descriptors.load_file(card(tmp_path, name="Lab Card.toml"))


@pytest.mark.parametrize(
    ("text", "keys", "line"),
    [
        ("a = 1\n[t]\nb = 2\n", ("t", "b"), 3),
        ("a = 1\n[t]\nb = 2\n", ("b",), None),
        ("[t.u]\n[x]\nu = 1\n", ("t", "u"), 1),
        ('[t]\n"a.b" = 1\na.b = 2\n', ("t", "a.b"), 2),
        ("[t]\na.b = 2\n", ("t", "a", "b"), 2),
        ("[t]\n\n  b={ c = 1 }\n", ("t", "b", "c"), 3),
        ("# b = 1\nb = 2\n", ("b",), 2),
        ("[[t]]\nb = 1\n", ("t",), 1),
        ("x" * 50_000, ("x",), None),
    ],
)
def test_the_line_of_a_key(text, keys, line):
    assert descriptors.line_of(text, keys) == line


def test_a_folder_is_read_with_its_subfolders(tmp_path):
    card(tmp_path / "accelerators")
    card(tmp_path / "servers", SERVER, "lab-server.toml")
    card(tmp_path, name="another.toml")
    names = [d.name for d in descriptors.load_folder(tmp_path)]
    assert names == ["another", "lab-card", "lab-server"]


def test_a_folder_without_descriptors_is_a_mistake(tmp_path):
    with pytest.raises(DescriptorError, match="holds no descriptor"):
        descriptors.load_folder(tmp_path)
    with pytest.raises(DescriptorError, match="is not a folder"):
        descriptors.load_folder(tmp_path / "absent")


def test_folders_come_from_the_environment(tmp_path):
    card(tmp_path / "one")
    card(tmp_path / "two", SERVER, "lab-server.toml")
    path = os.pathsep.join([str(tmp_path / "two"), "", str(tmp_path / "one")])
    loaded = descriptors.from_environment({descriptors.ENVIRONMENT_VARIABLE: path})
    assert [d.name for d in loaded] == ["lab-server", "lab-card"]
    assert descriptors.from_environment({}) == ()


def test_hook_benchrack_hardware_gives_the_built_in_ones_and_a_labs_own(tmp_path, monkeypatch):
    """Two plugins: a mistake in a lab's file does not take the built-in cards away."""
    from benchrack.hardware import lab, plugin

    card(tmp_path)
    monkeypatch.setenv("BENCHRACK_HARDWARE_PATH", str(tmp_path))
    assert "tesla-p4" in {d.name for d in plugin.benchrack_hardware()}
    assert {d.name for d in lab.benchrack_hardware()} == {"lab-card"}
