"""What machines are called."""

from __future__ import annotations

import pytest

from benchrack.reports.labels import machine_label, node


@pytest.mark.parametrize(
    ("facts", "label"),
    [
        ({"server": "PowerEdge R740", "cards": ["Tesla P4"] * 4}, "PowerEdge R740, 4× Tesla P4"),
        ({"server": "R740", "cards": ["P40", "P4", "P40"]}, "R740, 2× P40 + P4"),
        ({"server": "R740", "cards": [], "cpu": "Xeon", "sockets": 2}, "R740, 2× Xeon"),
        ({"cards": ["Tesla P4"], "cpu": "Xeon"}, "Xeon, Tesla P4"),
        (
            {"cpu": "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", "sockets": 2},
            "2× Intel Xeon Gold 6148",
        ),
        ({"cpu": "AMD EPYC 7742 64-Core Processor"}, "AMD EPYC 7742"),
        ({"label": "the loud one", "server": "R740"}, "the loud one"),
        ({"node": "rack7"}, "rack7"),
        ({"cards": "not a list", "cpu": "Xeon"}, "Xeon"),
        ({}, "unknown machine"),
    ],
)
def test_a_machine_is_named_by_what_it_holds(facts, label):
    assert machine_label(facts, {}) == label


def test_pytest_benchmarks_machine_info_fills_in():
    info = {"node": "lap", "cpu": {"brand_raw": "Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz"}}
    assert machine_label({}, info) == "Intel Core i7-8650U"
    assert machine_label({"cards": ["T4"]}, info) == "Intel Core i7-8650U, T4"
    assert machine_label({}, {"node": "lap", "cpu": "odd"}) == "lap"
    assert node({}, info) == "lap"
    assert node({"node": "rack1"}, info) == "rack1"
