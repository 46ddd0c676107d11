"""Which devices a run uses, how CUDA is told to count them, and whole cards against parts (MIG)."""

import dataclasses
import os
import subprocess
import sys

import pytest
from fakes import laboratory as lab, nvml

from benchrack.errors import DeviceError
from benchrack.flattening import flatten, unflatten
from benchrack.hardware import descriptors
from benchrack.machine.devices import CPU, resolve
from benchrack.vocabulary.descriptors import Accelerator
from benchrack.vocabulary.devices import Device

CARDS = {card.name: card for card in descriptors.built_in() if isinstance(card, Accelerator)}
PART = "MIG-4e0b2bd1-7a2f-5c51-9b3e-0f6c3f1f9a11"


@pytest.fixture
def machine(fake_nvml, monkeypatch):
    """`machine(cards, visible, parts)` is NVML with these cards; parts are names by UUID."""
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")

    def build(cards, visible=None, parts=None):
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        library = fake_nvml(nvml.Machine(cards=cards))
        whole = library.nvmlDeviceGetHandleByUUID, library.nvmlDeviceGetName
        known = parts or {}

        def by_uuid(uuid):
            return uuid if uuid in known else whole[0](uuid)

        library.nvmlDeviceGetHandleByUUID = by_uuid
        library.nvmlDeviceGetName = lambda handle: known.get(handle) or whole[1](handle)
        uuid_of = library.nvmlDeviceGetUUID
        library.nvmlDeviceGetUUID = lambda h: h if h in known else uuid_of(h)
        pci_of = library.nvmlDeviceGetPciInfo

        def pci(handle):
            if handle in known:
                raise library.NVMLError(library.NVML_ERROR_NOT_SUPPORTED)
            return pci_of(handle)

        library.nvmlDeviceGetPciInfo = pci
        return library

    return build


def mixed():
    """The slower card sits first on the bus: CUDA's own order would be the other one."""
    return [nvml.p4(0x3B), nvml.h200(0xAF)]


def test_cards_are_counted_in_pci_order_and_cuda_is_told_to_do_so(machine):
    library = machine(mixed())
    assert [str(d) + " " + d.name for d in resolve("auto")] == [
        "cuda:0 Tesla P4",
        "cuda:1 NVIDIA H200",
    ]
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert library.library.users == 0


@pytest.mark.parametrize("asked", ["cpu", "auto"])
def test_cuda_is_told_also_where_no_card_is_used(machine, asked):
    machine([])
    assert resolve(asked) == (CPU,)
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_run_of_pytest_tells_cuda_before_it_looks_for_cards(tmp_path):
    """Whatever was set; processes that it starts inherit it."""
    (tmp_path / "show_order.py").write_text(
        "import os, sys\n"
        "def pytest_collection():\n"
        "    print('order:', os.environ['CUDA_DEVICE_ORDER'], 'torch' in sys.modules)\n"
    )
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "pytest", "-s", "-p", "show_order", "--collect-only"),
            *("-p", "benchrack.pytest_plugin", "-p", "no:cacheprovider", str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "CUDA_DEVICE_ORDER": "FASTEST_FIRST"},
    )
    assert "order: PCI_BUS_ID False" in done.stdout


def test_a_card_tells_its_pci_id_and_whether_it_is_split(machine):
    machine([nvml.p4(0x3B), nvml.h200(0xAF, mig=(1, 1)), nvml.h200(0xB0, mig=(0, 1))])
    assert [(d.pci_id, d.mig) for d in resolve("auto")] == [
        ("1bb3", False),
        ("2335", True),
        ("2335", False),  # only after the next reset
    ]


def test_a_device_survives_its_way_to_a_worker(machine):
    machine([nvml.h200(mig=(1, 1))])
    (device,) = resolve("cuda:0")
    assert unflatten(Device, flatten(device)) == device


def test_visible_cards_are_counted_anew(machine):
    cards = mixed()
    machine(cards, visible=f"1,{cards[0].uuid[:12]},7,0")
    found = resolve("cuda")
    assert [(d.index, d.name, d.pci_id) for d in found] == [
        (0, "NVIDIA H200", "2335"),
        (1, "Tesla P4", "1bb3"),
    ]


def test_a_lost_card_and_a_driver_without_mig_hide_no_card(machine):
    library = machine([nvml.p4(0x3B, lost_at_s=-1.0), nvml.p4(0x5E)])
    library.nvmlDeviceGetMigMode = lambda handle: (_ for _ in ()).throw(
        library.NVMLError(library.NVML_ERROR_FUNCTION_NOT_FOUND)
    )
    assert [(d.index, d.mig) for d in resolve("auto")] == [(1, False)]


@pytest.mark.parametrize("visible", [PART, f"{PART},MIG-of-another-kind", f" {PART}"])
def test_a_part_of_a_card_is_a_device_of_its_own_and_the_only_one(machine, visible):
    """CUDA shows a process one part at most. NVML may not tell the PCI id of a part."""
    name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    library = machine([nvml.h200(mig=(1, 1))], visible=visible, parts={PART: name})
    expected = Device(kind="cuda", index=0, name=name, uuid=PART, mig=True)
    assert resolve("auto") == resolve("cuda:0") == (expected,)
    assert library.library.users == 0


@pytest.mark.parametrize("visible", [PART, "MIG-GPU-8932f937-d72c/1/0"])
def test_a_part_that_nvml_does_not_know_is_an_error_that_says_what_is_supported(machine, visible):
    """Not the CPU in its place, which nobody asked for."""
    library = machine([nvml.h200(mig=(1, 1))], visible=visible)
    with pytest.raises(DeviceError, match=r"nvidia-smi -L.* Supported is one part"):
        resolve("auto")
    assert library.library.users == 0
    assert resolve("cpu") == (CPU,)


def test_a_part_is_not_chosen_by_an_option(machine):
    machine([nvml.h200(mig=(1, 1))])
    with pytest.raises(DeviceError, match="CUDA_VISIBLE_DEVICES"):
        resolve(f"--device={PART}".partition("=")[2])


@pytest.fixture
def descriptor(tmp_path):
    """`descriptor(**changes)`: the descriptor that a bench finds for an H200, or what changes."""

    def find(known=CARDS, **changes):
        device = Device(kind="cuda", name="NVIDIA H200", pci_id="2335")
        bench = lab.bench(tmp_path, lab.backend(), device=dataclasses.replace(device, **changes))
        bench.registry.provided["accelerator"] = known
        return bench.card and bench.card.name

    return find


def test_a_bench_finds_the_descriptor_that_detection_finds(descriptor):
    assert descriptor() == descriptor(pci_id="") == "nvidia-h200-sxm"


@pytest.mark.parametrize(
    "changes",
    [
        {"pci_id": "233b"},  # the H200 NVL's
        {"name": "NVIDIA H200 NVL"},
        {"mig": True},
        {"name": "NVIDIA H200 MIG 1g.18gb", "mig": True, "pci_id": ""},
    ],
)
def test_another_card_or_a_part_of_one_has_no_descriptor(descriptor, changes):
    assert descriptor(**changes) is None


def test_of_two_descriptors_the_first_counts(descriptor):
    own = dataclasses.replace(CARDS["nvidia-h200-sxm"], name="our-h200", pci_ids=None)
    assert descriptor({"our-h200": own} | CARDS) == "our-h200"
    assert descriptor(CARDS | {"our-h200": own}) == "nvidia-h200-sxm"


@pytest.mark.parametrize("asked", ["cuda:0,0", "cuda:1,0,1"])
def test_a_card_that_is_named_twice_is_refused(machine, asked):
    machine(mixed())
    with pytest.raises(DeviceError, match="named twice"):
        resolve(asked)
