"""What is in this machine: exact matches, unknown cards, and failures in words."""

from __future__ import annotations

import dataclasses
import os
import sys

import pynvml as real
import pytest
from fakes import nvml

from benchrack.hardware import descriptors, detection
from benchrack.vocabulary.descriptors import Accelerator, Cited, match

BUILT_IN = descriptors.built_in()
CARDS = [d for d in BUILT_IN if isinstance(d, Accelerator)]


@pytest.fixture
def look(root, fake_nvml):
    """Detect a made-up machine of tests/fakes/nvml.py."""
    root.cpus()

    def look(machine, known=BUILT_IN):
        fake_nvml(machine)
        return detection.detect(known, root=root.path)

    return look


@pytest.mark.parametrize(
    ("machine", "descriptor", "count", "memory_gib"),
    [
        ("four_p4", "tesla-p4", 4, 8),
        ("three_p40", "tesla-p40", 3, 24),
        ("four_v100_sxm2", "tesla-v100-sxm2-16gb", 4, 16),
        ("one_h200", "nvidia-h200-sxm", 1, 141),
    ],
)
def test_cards_are_matched_to_their_descriptors(look, machine, descriptor, count, memory_gib):
    found = look(getattr(nvml, machine)())
    assert [card.descriptor for card in found.cards] == [descriptor] * count
    assert [card.index for card in found.cards] == list(range(count))
    assert found.problems == ()
    # A card reports a little less than its data sheet: ECC and the driver take their part.
    assert found.cards[0].memory_gib == pytest.approx(memory_gib, rel=0.08)


def test_a_card_has_its_facts(look):
    found = look(nvml.one_h200())
    (card,) = found.cards
    assert card.name == "NVIDIA H200"
    assert card.pci_id == "2335"
    assert card.pci_bus_id == "00000000:19:00.0"
    assert card.compute_capability == "9.0"
    assert card.mig is False
    assert card.process_ids == ()
    assert card.uuid is not None
    assert card.uuid.startswith("GPU-")
    assert (found.driver, found.driver_cuda) == ("575.57.08", "12.9")


def test_an_unknown_card_keeps_its_facts(look):
    (card,) = look(nvml.unknown_card()).cards
    assert card.descriptor is None
    assert (card.name, card.pci_id) == ("NVIDIA X1000 Prototype", "fff0")


# Names and PCI ids of NVIDIA/open-gpu-kernel-modules' list and of MLPerf submissions.
@pytest.mark.parametrize(
    ("name", "pci_id", "relative"),
    [
        ("NVIDIA H200 NVL", "233b", "nvidia-h200-sxm"),
        ("NVIDIA H100 NVL", "2321", "nvidia-h100-pcie-80gb"),
        ("NVIDIA L40", "26b5", "nvidia-l40s"),
        ("NVIDIA A10G", "2237", "nvidia-a10"),
        ("NVIDIA A2", "25b6", "nvidia-a10"),
        ("Tesla V100S-PCIE-32GB", "1df6", "tesla-v100-pcie-32gb"),
        ("GRID T4-16Q", "1eb8", "tesla-t4"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "20b0", "nvidia-a100-sxm4-40gb"),
        ("tesla p4", "1bb3", "tesla-p4"),
        ("Tesla P4 ", "1bb3", "tesla-p4"),
    ],
)
def test_a_relative_is_no_match(name, pci_id, relative):
    assert relative in {card.name for card in CARDS}
    assert match(name, pci_id, CARDS) == (None, None)


@pytest.mark.parametrize(
    ("name", "own"), [("NVIDIA L40S", "nvidia-l40s"), ("NVIDIA L4", "nvidia-l4")]
)
def test_each_of_two_similar_names_finds_its_own(name, own):
    found, problem = match(name, None, CARDS)
    assert found is not None
    assert (found.name, problem) == (own, None)


def test_a_known_name_with_another_pci_id_is_unknown_and_said(look):
    found = look(nvml.Machine(cards=[nvml.h200(pci_device=0x233B)]))
    assert found.cards[0].descriptor is None
    (problem,) = found.problems
    assert "card 0: a card calls itself 'NVIDIA H200', as nvidia-h200-sxm does" in problem
    assert "233b, not 2335" in problem


def test_of_two_descriptors_for_one_card_the_first_counts_and_that_is_said():
    p4 = next(card for card in CARDS if card.name == "tesla-p4")
    again = dataclasses.replace(p4, name="lab-p4", pci_ids=None)
    descriptor, problem = match("Tesla P4", "1bb3", [p4, again])
    assert descriptor is p4
    assert problem is not None
    assert "tesla-p4, lab-p4; the first is used" in problem


def test_a_labs_own_descriptor_makes_a_card_known(look):
    own = Accelerator(
        name="lab-x1000",
        title="X1000",
        vendor="Lab",
        device_names=Cited(("NVIDIA X1000 Prototype",), "the lab", "A"),
    )
    (card,) = look(nvml.unknown_card(), [own]).cards
    assert card.descriptor == "lab-x1000"


def test_a_cpu_machine_without_a_driver_has_no_problem(look):
    found = look(nvml.no_driver())
    assert (found.cards, found.driver, found.problems) == ((), None, ())


def test_a_driver_without_cards_has_no_problem(look):
    found = look(nvml.no_card())
    assert (found.cards, found.driver, found.problems) == ((), "570.86.15", ())


def test_a_card_on_the_bus_without_a_driver_is_a_problem(look, root):
    root.pci_device("0000:3b:00.0", "1b38")
    root.pci_device("0000:3c:00.0", "ffff")
    root.pci_device("0000:3b:00.1", "10ef", kind="0x040300")  # its sound function
    (problem,) = look(nvml.no_driver()).problems
    assert "(10de:1b38, the id of tesla-p40)" in problem
    assert "(10de:ffff)" in problem
    assert "10ef" not in problem
    assert "no NVIDIA driver is installed" in problem


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (real.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "reboot, or unload the nvidia modules"),
        (real.NVML_ERROR_NO_PERMISSION, "/dev/nvidia*"),
        (real.NVML_ERROR_UNKNOWN, "nvidia-smi"),
        (real.NVML_ERROR_INSUFFICIENT_POWER, "power cable"),
    ],
)
def test_a_driver_that_fails_is_a_problem_with_advice(look, code, advice):
    found = look(nvml.Machine(init_error=code))
    assert found.cards == ()
    (problem,) = found.problems
    assert advice in problem


def test_a_lost_card_is_a_problem_and_the_other_is_seen(look):
    found = look(nvml.lost_card(at_s=-1.0))
    assert [card.index for card in found.cards] == [0]
    (problem,) = found.problems
    assert problem.startswith("card 1: ")
    assert "Xid" in problem


def test_no_permission_for_a_card_is_a_problem(look):
    found = look(nvml.no_permission())
    assert found.cards == ()
    assert "may not ask" in found.problems[0]


def test_an_old_driver_that_lacks_a_function_still_shows_the_card(look):
    machine = nvml.four_p4()
    machine.missing = ("nvmlDeviceGetMigMode", "nvmlDeviceGetComputeRunningProcesses")
    card = look(machine).cards[0]
    assert (card.mig, card.process_ids, card.descriptor) == (None, None, "tesla-p4")


def test_mig_and_other_processes_are_seen(look):
    card = nvml.h200(mig=(1, 1), processes=((4321, 1 << 30),))
    (found,) = look(nvml.Machine(cards=[card])).cards
    assert found.mig is True
    assert found.process_ids == (4321,)


def test_a_card_that_is_split_has_no_descriptor(look):
    """NVML calls it by the whole card's name, and its peaks are the whole card's."""
    found = look(nvml.Machine(cards=[nvml.h200(mig=(1, 1)), nvml.h200(0x1A, mig=(0, 1))]))
    assert [card.descriptor for card in found.cards] == [None, "nvidia-h200-sxm"]
    assert found.problems == ()


def test_nvml_is_closed_again(root, fake_nvml):
    for machine in (nvml.four_p4(), nvml.no_permission()):
        module = fake_nvml(machine)
        detection.detect(BUILT_IN, root=root.path)
        assert module.library.users == 0


def test_without_pynvml_that_is_the_problem(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = detection.detect(BUILT_IN, root=root.path)
    assert "pip install nvidia-ml-py" in found.problems[0]


@pytest.mark.parametrize(
    ("product", "server"),
    [
        ("PowerEdge R740", "poweredge-r740"),
        ("PowerEdge C4140", "poweredge-c4140"),
        ("PowerEdge R740xd", None),
        ("PowerEdge C4130", None),
        ("", None),
    ],
)
def test_the_server_is_matched_by_its_firmwares_product_name(look, root, product, server):
    root.firmware(product)
    found = look(nvml.no_driver())
    assert (found.vendor, found.product, found.server) == ("Dell Inc.", product or None, server)


def test_cpus_and_memory_come_from_proc(look):
    found = look(nvml.no_driver())
    assert found.cpu_model == "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz"
    assert (found.sockets, found.cores, found.threads) == (2, 40, 80)
    assert found.memory_gib == pytest.approx(376.5, abs=0.1)
    assert found.instruction_sets == ("avx", "avx2", "fma", "f16c", "avx512f", "avx512_vnni")
    assert not found.virtual


def test_a_hypervisor_underneath_is_seen(look, root):
    root.cpus(sockets=1, cores=2, threads=1, more=" hypervisor amx_int8")
    found = look(nvml.no_driver())
    assert found.virtual
    assert "amx_int8" in found.instruction_sets


def test_an_arm_machine_has_cores_without_sockets(look, root):
    paragraph = "processor\t: {}\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd asimddp i8mm\n\n"
    root.write("proc/cpuinfo", "".join(paragraph.format(i) for i in range(4)))
    found = look(nvml.no_driver())
    assert (found.cpu_model, found.sockets, found.cores, found.threads) == (None, 1, 4, 4)
    assert found.instruction_sets == ("asimd", "asimddp", "i8mm")


def test_a_machine_that_shows_nothing_is_still_described(tmp_path, fake_nvml):
    fake_nvml(nvml.no_driver())
    found = detection.detect((), root=tmp_path)
    assert (found.product, found.cpu_model, found.memory_gib) == (None, None, None)
    assert (found.sockets, found.cores, found.threads) == (0, 0, 0)


@pytest.mark.skipif(not os.path.exists("/proc/cpuinfo"), reason="reads this machine's /proc")
def test_this_machine_is_described():
    found = detection.detect(BUILT_IN)
    assert found.threads >= 1
    assert found.memory_gib
