"""A server takes so many cards and no more: what its descriptor says bounds the device counts."""

from types import SimpleNamespace

import pytest
from fakes import measurements as made

from benchrack.cases.sweep import beyond_server
from benchrack.hardware.descriptors import built_in
from benchrack.nodes.nodes import Nodes
from benchrack.pytest_plugin import opening
from benchrack.pytest_plugin.cases import Planned
from benchrack.pytest_plugin.nodes import NODES
from benchrack.pytest_plugin.resume import Resumed
from benchrack.vocabulary.descriptors import Accelerator, Server

DESCRIPTORS = {descriptor.name: descriptor for descriptor in built_in()}


def case_of(count):
    return made.case(
        model="alexnet", backend="onnxruntime-int8", batch_size=128, device_count=count
    )


def refusal(server, card, count):
    return beyond_server(case_of(count), DESCRIPTORS.get(server), DESCRIPTORS.get(card))


@pytest.mark.parametrize(("card", "most"), [("tesla-p40", 3), ("tesla-p4", 4)])
def test_an_r740_takes_at_most_three_p40_or_four_p4(card, most):
    assert refusal("poweredge-r740", card, most) is None
    found = refusal("poweredge-r740", card, most + 1)
    title = DESCRIPTORS[card].title
    assert found.startswith(
        f"{most + 1} devices were asked for, and the Dell EMC PowerEdge R740 takes at most {most} "
        f"{title}"
    )
    assert "P40 vs P4 with Skylake" in found


@pytest.mark.parametrize(
    ("server", "card"),
    [
        ("poweredge-r740", "tesla-t4"),  # four were submitted to MLPerf; nobody says that is all
        ("poweredge-c4140", "tesla-p4"),
        ("poweredge-r740", "unknown card"),
        ("unknown server", "tesla-p40"),
    ],
)
def test_where_nobody_says_there_is_no_bound(server, card):
    assert refusal(server, card, 16) is None


@pytest.mark.parametrize(("count", "most"), [(1, 3), (2, 6)])
def test_what_a_server_can_not_hold_is_known_before_anything_is_measured(monkeypatch, count, most):
    """Of two machines each has half of the cards; what an earlier run has is not asked about."""
    monkeypatch.setattr(opening, "_server", lambda bench: DESCRIPTORS["poweredge-r740"])
    here = Nodes(count=count, rank=0, host="node01")
    config = SimpleNamespace(stash={NODES: here})
    bench = SimpleNamespace(card=DESCRIPTORS["tesla-p40"])
    planned = {str(n): Planned(case_of(n), start=1) for n in (1, most, most + 2, most + 4)}
    resumed = Resumed(reasons={"1": "has a record", str(most + 4): "has a record"})
    found = opening._spared(config, bench, planned, resumed)
    assert {name: status for name, (status, _) in found.items()} == {
        "1": "resumed",
        str(most + 2): "unsupported",
        str(most + 4): "resumed",
    }
    assert "takes at most 3" in found[str(most + 2)][1]


def test_bounds_name_cards_that_have_descriptors():
    """A misspelt name in a configuration with a bound would bound nothing."""
    cards = [d for d in DESCRIPTORS.values() if isinstance(d, Accelerator)]
    known = {name for card in cards for name in (card.title, *card.device_names.value)}
    servers = [d for d in DESCRIPTORS.values() if isinstance(d, Server)]
    bounded = [c for s in servers for c in s.configurations if c.accelerator_max]
    assert bounded
    assert {c.accelerator.value for c in bounded} <= known
