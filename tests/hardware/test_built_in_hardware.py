"""The descriptors that come with Benchrack, against what the documents print."""

from __future__ import annotations

import re

import pytest

from benchrack.hardware import descriptors, table
from benchrack.vocabulary.descriptors import Accelerator, Server

BUILT_IN = descriptors.built_in()
CARDS = {d.name: d for d in BUILT_IN if isinstance(d, Accelerator)}
SERVERS = {d.name: d for d in BUILT_IN if isinstance(d, Server)}

# Data sheets and the documents that quote them: FP32 TFLOPS, memory GB, TDP W, capability.
PRINTED = {
    "tesla-p4": (5.5, 8, 75, "6.1"),
    "tesla-p40": (12.0, 24, 250, "6.1"),
    "tesla-v100-sxm2-16gb": (15.7, 16, 300, "7.0"),
    "tesla-v100-sxm2-32gb": (15.7, 32, 300, "7.0"),
    "tesla-v100-pcie-16gb": (14, 16, 250, "7.0"),
    "tesla-v100-pcie-32gb": (14, 32, 250, "7.0"),
    "tesla-t4": (8.1, 16, 70, "7.5"),
    "nvidia-a10": (31.2, 24, 150, "8.6"),
    "nvidia-a30": (10.3, 24, 165, "8.0"),
    "nvidia-a100-pcie-40gb": (19.5, 40, 250, "8.0"),
    "nvidia-a100-pcie-80gb": (19.5, 80, 300, "8.0"),
    "nvidia-a100-sxm4-40gb": (19.5, 40, 400, "8.0"),
    "nvidia-a100-sxm4-80gb": (19.5, 80, 400, "8.0"),
    "nvidia-l4": (30.3, 24, 72, "8.9"),
    "nvidia-l40s": (91.6, 48, 350, "8.9"),
    "nvidia-h100-pcie-80gb": (51.2, 80, 350, "9.0"),
    "nvidia-h100-sxm5-80gb": (66.9, 80, 700, "9.0"),
    "nvidia-h200-sxm": (67, 141, 700, "9.0"),
}


def test_these_cards_and_servers_are_there():
    assert set(CARDS) == set(PRINTED)
    assert set(SERVERS) == {"poweredge-c4140", "poweredge-r740"}


@pytest.mark.parametrize("name", PRINTED)
def test_a_card_is_as_printed(name):
    card = CARDS[name]
    figures = {key: cited.value for key, cited in card.figures.items()}
    capability = card.compute_capability
    assert capability is not None
    found = (figures["fp32_tflops"], figures["memory_gib"], figures["tdp_w"], capability.value)
    assert found == PRINTED[name]


def test_table_1_of_the_p40_vs_p4_study():
    """Dell EMC, July 2017: Table 1, cell by cell."""
    assert table.comparison_table([CARDS["tesla-p40"], CARDS["tesla-p4"]]) == (
        ["", "tesla-p40", "tesla-p4"],
        [
            ["CUDA cores", "3840", "2560"],
            ["core clock, MHz", "1531", "1063"],
            ["memory bandwidth, GB/s", "346", "192"],
            ["memory, GiB", "24", "8"],
            ["FP32, TFLOPS", "12.0", "5.5"],
            ["INT8, TOPS", "47", "22"],
            ["TDP, W", "250", "75"],
        ],
    )


def test_what_nobody_published_is_an_empty_cell_and_what_was_inferred_says_so():
    header, rows = table.overview([CARDS["nvidia-a30"], CARDS["nvidia-h200-sxm"]])
    int8 = header.index("INT8, TOPS")
    assert [row[int8] for row in rows] == ["", "1978.9 (D)"]


def test_sources_of_one_card_name_every_fact():
    header, rows = table.sources(CARDS["tesla-p4"])
    assert header == ["fact", "value", "confidence", "source", "note"]
    facts = {row[0]: row[1:] for row in rows}
    value, confidence, source, note = facts["boost clock, MHz"]
    assert (value, confidence) == ("1063", "A")
    assert "Skylake" in source
    assert "1114" in note
    assert facts["PCI ids"][0] == "1bb3"
    assert facts["compute capability"][:2] == ["6.1", "C"]
    assert len(rows) == len(facts) == len(CARDS["tesla-p4"].figures) + 6


def test_sources_of_a_server_name_its_configurations():
    _, rows = table.sources(SERVERS["poweredge-r740"])
    facts = {row[0]: row[1:] for row in rows}
    assert facts["DMI names"][0] == "PowerEdge R740"
    assert facts["memory at most, GiB"][0] == "3072"
    assert facts["p40: accelerators at most"][0] == "3"
    assert facts["mlperf-t4-2019: CPU"][0] == "Intel Xeon Gold 6154"


@pytest.mark.parametrize("name", [n for n in PRINTED if "v100" in n])
def test_no_v100_has_a_figure_of_the_v100s(name):
    """Trap: a database prints 1597 MHz, 1130 GB/s and 16.4 TFLOPS (V100S) for the V100."""
    figures = CARDS[name].figures
    assert figures["boost_clock_mhz"].value in (1380, 1530)
    assert figures["bandwidth_gb_per_s"].value == 900
    assert "int8_tops" not in figures


@pytest.mark.parametrize(
    ("name", "dense"),
    [
        ("nvidia-l4", {"fp16": 121, "int8": 242}),
        ("nvidia-l40s", {"fp16": 362, "tf32": 183, "fp8": 733, "int8": 733}),
        ("nvidia-h100-pcie-80gb", {"fp16": 756, "int8": 1513}),
        ("nvidia-h100-sxm5-80gb", {"fp16": 989.4, "tf32": 494.7, "int8": 1978.9}),
        ("nvidia-h200-sxm", {"fp16": 989.4, "bf16": 989.4, "int8": 1978.9}),
    ],
)
def test_peaks_are_dense(name, dense):
    """Trap: several sources print these cards' tensor rates with sparsity, twice the dense ones."""
    peaks = {arithmetic: CARDS[name].peak(arithmetic) for arithmetic in dense}
    assert {key: peak.value for key, peak in peaks.items() if peak} == dense


def test_fp16_is_slow_on_pascal():
    for name in ("tesla-p4", "tesla-p40"):
        fp16, fp32 = CARDS[name].peak("fp16"), CARDS[name].peak("fp32")
        assert fp16 is not None
        assert fp32 is not None
        assert fp32.value / fp16.value == pytest.approx(64, rel=0.05)
        assert any("FP16" in note.value for note in CARDS[name].notes)


@pytest.mark.parametrize("name", PRINTED)
def test_the_peaks_agree_with_cores_and_clock(name):
    """FP32 peak = 2 operations × CUDA cores × boost clock; sources differ by a few percent."""
    figures = CARDS[name].figures
    computed = 2 * figures["cuda_cores"].value * figures["boost_clock_mhz"].value / 1e6
    assert figures["fp32_tflops"].value == pytest.approx(computed, rel=0.03)


def test_no_two_cards_share_a_name_or_an_id():
    names = [n for card in CARDS.values() for n in card.device_names.value]
    ids = [i for card in CARDS.values() if card.pci_ids for i in card.pci_ids.value]
    assert len(set(names)) == len(names)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("descriptor", BUILT_IN, ids=lambda d: d.name)
def test_every_source_is_used_and_names_a_document(descriptor):
    folder = "accelerators" if isinstance(descriptor, Accelerator) else "servers"
    path = descriptors.Path(descriptors.__file__).parent / folder / f"{descriptor.name}.toml"
    text = path.read_text(encoding="utf-8")
    for key in re.findall(r"^([\w-]+) = ", text.partition("[sources]")[2], re.MULTILINE):
        assert f'source = "{key}"' in text


def test_the_c4140s_configurations_have_their_cpus():
    c4140 = {c.name: c for c in SERVERS["poweredge-c4140"].configurations}
    assert {n: c.cpu.value for n, c in c4140.items() if c.cpu} == {
        "k": "Intel Xeon Silver 4116",
        "m": "Intel Xeon Gold 6148",
        "mlperf-v100-2020": "Intel Xeon Gold 6148",
    }
    assert c4140["k"].topology is None  # read for the C4130 only


def test_the_r740_holds_three_p40_or_four_p4():
    r740 = {c.name: c for c in SERVERS["poweredge-r740"].configurations}
    counts = {n: c.accelerator_count.value for n, c in r740.items() if c.accelerator_count}
    assert (counts["p40"], counts["p4"]) == (3, 4)
    assert "v100-pcie" not in counts  # the source does not say how many
