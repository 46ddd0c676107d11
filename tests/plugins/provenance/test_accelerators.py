"""What NVML tells of cards, as provenance: one list a fact, one item a card."""

from __future__ import annotations

import pytest
from fakes import nvml

from benchrack.plugins.provenance.accelerators import gather


def test_four_v100_with_nvlink(fake_nvml):
    machine = nvml.four_v100_sxm2()
    fake = fake_nvml(machine)
    facts = gather()
    assert facts["name"] == ["Tesla V100-SXM2-16GB"] * 4
    assert facts["driver"] == "570.86.15"
    assert facts["driver_cuda"] == "12.8"
    assert facts["pci_bus_id"][0] == "00000000:1A:00.0"
    assert facts["pci_id"] == ["1db1"] * 4
    assert facts["compute_capability"] == ["7.0"] * 4
    assert facts["memory_gib"] == [15.78] * 4
    assert facts["vbios"] == ["88.00.41.00.04"] * 4
    assert (facts["ecc"], facts["mig"]) == ([True] * 4, [None] * 4)
    assert facts["persistence"] == [True] * 4
    assert facts["power_limit_w"] == facts["power_limit_default_w"] == [300.0] * 4
    assert facts["application_clock_sm_mhz"] == [1530] * 4
    assert facts["application_clock_memory_mhz"] == [877] * 4
    assert facts["pcie_generation"] == facts["pcie_generation_max"] == [3] * 4
    assert facts["pcie_width"] == facts["pcie_width_max"] == [16] * 4
    assert (
        facts["nvlink_peers"][0] == "00000000:1C:00.0 ×2, 00000000:1D:00.0 ×2, 00000000:1E:00.0 ×2"
    )
    assert fake.library.users == 0


def test_uuids_are_hashed_and_differ(fake_nvml):
    machine = nvml.four_p4()
    fake_nvml(machine)
    facts = gather()
    assert len(set(facts["uuid_hash"])) == 4
    assert not [c.uuid for c in machine.cards if c.uuid in str(facts)]


def test_what_a_card_does_not_tell_is_null(fake_nvml):
    fake_nvml(nvml.unknown_card())
    facts = gather()
    assert facts["name"] == ["NVIDIA X1000 Prototype"]
    assert (facts["ecc"], facts["mig"], facts["nvlink_peers"]) == ([None], [None], [None])


def test_a_slow_link_and_a_lowered_limit_are_seen(fake_nvml):
    card = nvml.p40(pcie=(1, 3, 8, 16), persistence=0, power_limit_w=187.5, ecc=(0, 1))
    fake_nvml(nvml.Machine(cards=[card]))
    facts = gather()
    assert (facts["pcie_generation"], facts["pcie_generation_max"]) == ([1], [3])
    assert (facts["pcie_width"], facts["pcie_width_max"]) == ([8], [16])
    assert (facts["persistence"], facts["power_limit_w"], facts["ecc"]) == (
        [False],
        [187.5],
        [False],
    )


def test_mig_of_a_card_that_can(fake_nvml):
    fake_nvml(nvml.one_h200())
    facts = gather()
    assert (facts["mig"], facts["nvlink_peers"]) == ([False], ["00000000:05:00.0 ×18"])


def test_no_card(fake_nvml):
    fake_nvml(nvml.no_card())
    facts = gather()
    assert (facts["name"], facts["driver"]) == ([], "570.86.15")


@pytest.mark.parametrize(
    ("machine", "why"),
    [
        (nvml.no_driver, "no NVIDIA driver"),
        (nvml.driver_mismatch, "different driver versions"),
    ],
)
def test_cards_that_can_not_be_read(fake_nvml, machine, why):
    fake = fake_nvml(machine())
    facts = gather()
    assert facts["name"] == []
    assert why in facts["absent"]
    assert fake.library.users == 0


def test_a_lost_card_is_recorded_beside_the_healthy_ones(fake_nvml):
    fake = fake_nvml(nvml.lost_card(at_s=0.0))
    facts = gather()
    assert facts["name"] == ["Tesla P4", None]
    assert facts["power_limit_w"] == [75.0, None]
    assert facts["uuid_hash"][0]
    assert facts["uuid_hash"][1] is None
    healthy, lost = facts["fault"]
    assert healthy is None
    assert "GPU is lost" in lost
    assert facts["driver"] == "570.86.15"
    assert fake.library.users == 0


@pytest.mark.parametrize("order", [1, -1])
def test_each_fact_of_each_card_stands_at_the_cards_place(fake_nvml, order):
    cards = [nvml.p4(0x3B, lost_at_s=-1.0), nvml.p4(0x5E)][::order]
    fake_nvml(nvml.Machine(cards=cards))
    facts = gather()
    names = [None, "Tesla P4"][::order]
    assert facts["name"] == names
    assert {len(column) for column in facts.values() if isinstance(column, list)} == {2}


def test_cards_that_may_not_be_read_are_recorded_so(fake_nvml):
    fake_nvml(nvml.no_permission())
    facts = gather()
    assert (facts["name"], facts["uuid_hash"]) == ([None], [None])
    assert "may not ask" in facts["fault"][0]


def test_healthy_cards_have_no_fault(fake_nvml):
    fake_nvml(nvml.four_p4())
    assert "fault" not in gather()
