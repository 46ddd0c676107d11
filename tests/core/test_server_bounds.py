"""A server takes so many cards and no more: what its descriptor says bounds the device counts."""

import pytest

from benchrack.hardware.descriptors import built_in
from benchrack.machines import Accelerator, Server
from benchrack.sweep import beyond_server
from benchrack.types import Case

DESCRIPTORS = {descriptor.name: descriptor for descriptor in built_in()}


def refusal(server, card, count):
    case = Case(
        scenario="throughput",
        model="alexnet",
        backend="onnxruntime-int8",
        batch_size=128,
        device_count=count,
    )
    return beyond_server(case, DESCRIPTORS.get(server), DESCRIPTORS.get(card))


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


def test_bounds_name_cards_that_have_descriptors():
    """A misspelt name in a configuration with a bound would bound nothing."""
    cards = [d for d in DESCRIPTORS.values() if isinstance(d, Accelerator)]
    known = {name for card in cards for name in (card.title, *card.device_names.value)}
    servers = [d for d in DESCRIPTORS.values() if isinstance(d, Server)]
    bounded = [c for s in servers for c in s.configurations if c.accelerator_max]
    assert bounded
    assert {c.accelerator.value for c in bounded} <= known
