"""Cards relative to one of them, as in figures 1 and 2 of the P40-vs-P4 study."""

from __future__ import annotations

import dataclasses

import pytest
from click.testing import CliRunner
from fakes import measurements as made
from fakes.tables import column

from benchrack.command.cli import cli
from benchrack.errors import ResultsError
from benchrack.reports.cards import cards_table
from benchrack.reports.records import load
from benchrack.reports.tables import render_all
from benchrack.vocabulary.results import Power

P40, P4 = "Tesla P40", "Tesla P4"
# Figures 1 (AlexNet) and 2 (GoogLeNet): images/s, and images/s per watt above idle, of one P40's.
FIGURES = {
    "alexnet": {
        P40: ((1.00, 2.00, 2.99), (1.00, 1.02, 1.00)),
        P4: ((0.52, 1.05, 1.56, 2.09), (1.42, 1.59, 1.55, 1.52)),
    },
    "googlenet": {
        P40: ((1.00, 2.00, 3.00), (1.00, 1.01, 1.00)),
        P4: ((0.52, 1.06, 1.58, 2.10), (1.44, 1.51, 1.46, 1.41)),
    },
}


@pytest.fixture
def on(make):
    """A rate on so many of a card, perhaps with images/s per watt above idle."""

    def build(card, rate, count=1, per_watt=None, *, meters=("nvml",), version="1", **more):
        more = {"model": "alexnet", "batch_size": 128, "engine": "TensorRT", **more}
        measured = make.measured(rate, device_count=count, device=card, **more)
        power = Power(meters=meters, images_per_s_per_w_above_idle=per_watt)
        engine = dataclasses.replace(measured.engine, version=version)
        return dataclasses.replace(measured, power=power if per_watt else None, engine=engine)

    return build


@pytest.fixture
def results(write_json):
    """Of one run for each list of measurements, all on one server."""

    def build(*runs):
        return load(
            [
                write_json(f"{n}.json", run, run=f"r{n}", started=f"2026-11-{n:02}T10:00:00Z")
                for n, run in enumerate(runs, 1)
            ]
        )

    return build


def texts(table, *headers):
    return list(zip(*([c.text for c in column(table, h)] for h in headers), strict=True))


@pytest.mark.parametrize("model", FIGURES)
def test_the_studys_figure_comes_out_of_both_cards_results(results, on, model):
    """On any scale: here one P40 does 16292 images/s and 80 per watt."""
    runs = [
        [
            on(card, 16292 * rate, n, 80 * per_watt, model=model)
            for n, (rate, per_watt) in enumerate(zip(rates, per_watts, strict=True), 1)
        ]
        for card, (rates, per_watts) in FIGURES[model].items()
    ]
    table = cards_table(results(*runs), "Tesla P40")
    assert table.title == "Cards, relative to one Tesla P40"
    assert table.headers == (
        *("model", "backend", "batch", "card", "devices"),
        *("images/s", "relative", "images/s/W above idle", "relative per W"),
    )
    assert texts(table, "card", "devices", "relative", "relative per W") == [
        (card, str(n), f"{rate:.2f}", f"{per_watt:.2f}")
        for card, (rates, per_watts) in FIGURES[model].items()
        for n, (rate, per_watt) in enumerate(zip(rates, per_watts, strict=True), 1)
    ]


def test_the_single_p4_is_not_taken_for_its_own_base(results, on):
    """It is the same case as the single P40's, on another card."""
    table = cards_table(results([on(P40, 1000.0)], [on(P4, 520.0)]), "p40")
    assert texts(table, "card", "relative") == [(P40, "1.00"), (P4, "0.52")]
    assert column(table, "relative")[0].spread == ""


def test_a_ratio_has_the_uncertainty_of_both(results, on):
    table = cards_table(results([on(P40, 100.0, half=0.01)], [on(P4, 50.0, half=0.01)]))
    assert column(table, "relative")[1].spread == "±2.0 %"
    bare = made.but(on(P4, 50.0), images_per_s=50.0)
    assert str(column(cards_table(results([on(P40, 100.0)], [bare])), "relative")[1]) == "0.50"


def test_both_cards_may_be_of_one_run(results, on):
    table = cards_table(results([on(P40, 1000.0), on(P4, 520.0)]))
    assert [c.text for c in column(table, "relative")] == ["1.00", "0.52"]
    assert not any("what differs between runs" in note for note in table.notes)
    apart = cards_table(results([on(P40, 1000.0)], [on(P4, 520.0)]))
    assert any("what differs between runs" in note for note in apart.notes)


# Which card is the base -----------------------------------------------------------------------


def test_by_default_it_is_the_card_with_most_single_devices_then_the_first(results, on):
    first = cards_table(results([on(P4, 520.0)], [on(P40, 1000.0)]))
    assert first.title == "Cards, relative to one Tesla P4"
    assert [c.text for c in column(first, "relative")] == ["1.00", "1.92"]
    most = cards_table(
        results(
            [on(P4, 520.0), on(P4, 1000.0, 2, batch_size=1)],
            [on(P40, 1000.0), on(P40, 90.0, batch_size=1)],
        )
    )
    assert most.title == "Cards, relative to one Tesla P40"


@pytest.mark.parametrize("name", ["Tesla P40", "tesla-p40", "p40", "P40"])
def test_a_card_is_named_by_its_words(results, on, name):
    """`p4` is no word of Tesla P40, and `tesla` one of both."""
    both = results([on(P4, 520.0)], [on(P40, 1000.0)])
    assert cards_table(both, name).title == "Cards, relative to one Tesla P40"
    assert cards_table(both, "p4").title == "Cards, relative to one Tesla P4"


@pytest.mark.parametrize(
    ("name", "words"),
    [("tesla", "may be several cards"), ("v100", "is no card of these results"), ("", "")],
)
def test_what_names_no_card_or_several_is_an_error(results, on, name, words):
    both = results([on(P4, 520.0)], [on(P40, 1000.0)])
    with pytest.raises(ResultsError, match="name one of Tesla P4, Tesla P40") as raised:
        cards_table(both, name)
    assert words in str(raised.value)


def test_results_of_no_card_have_nothing_to_be_relative_to(write_json, make):
    results = load([write_json("cpu.json", [make.measured(9.0)])])
    with pytest.raises(ResultsError, match="these results are of no card"):
        cards_table(results, "p40")


def test_a_name_that_is_whole_is_not_ambiguous(results, on):
    card, longer = "NVIDIA A100", "NVIDIA A100 80GB"
    table = cards_table(results([on(longer, 9.0)], [on(card, 8.0)]), "nvidia-a100")
    assert table.title == f"Cards, relative to one {card}"


# Which cases are shown ------------------------------------------------------------------------


def test_one_card_needs_no_table(results, on, make):
    assert cards_table(results([on(P4, 520.0), on(P4, 1000.0, 2)])) is None
    assert cards_table(results([on(P4, 520.0)], [make.measured(9.0, model="alexnet")])) is None


def test_the_same_is_of_one_model_backend_batch_and_kind_of_copies(results, on):
    for other in ({"model": "vgg16"}, {"backend": "b"}, {"batch_size": 1}, {"transfer": "include"}):
        assert cards_table(results([on(P4, 520.0)], [on(P40, 1000.0, **other)])) is None


def test_cases_without_a_single_device_of_the_base_are_left_out(results, on):
    both = results(
        [on(P40, 1000.0), on(P40, 100.0, 2, batch_size=1)], [on(P4, 520.0), on(P4, 40.0, 2)]
    )
    table = cards_table(both, "p40")
    assert texts(table, "batch", "card", "devices") == [
        ("128", P40, "1"),
        ("128", P4, "1"),
        ("128", P4, "2"),
    ]
    assert cards_table(results([on(P40, 2000.0, 2)], [on(P4, 520.0)]), "p40") is None


def test_cards_come_after_each_other_whatever_was_measured_first(results, on):
    """Three of them, in turns."""
    table = cards_table(
        results([on(c, 100.0 * n, n) for n in (1, 2) for c in ("Tesla T4", P4, P40)]), "p4"
    )
    assert texts(table, "card", "devices") == [
        *((P4, "1"), (P4, "2"), ("Tesla T4", "1"), ("Tesla T4", "2"), (P40, "1"), (P40, "2")),
    ]


def test_starts_are_pooled_before_they_are_divided(results, on):
    starts = [
        dataclasses.replace(on(P40, rate), start=n) for n, rate in enumerate((99, 100, 180), 1)
    ]
    table = cards_table(results(starts, [on(P4, 50.0)]))
    assert column(table, "relative")[1].text == "0.50"


def test_of_several_servers_with_the_base_the_newest_is_taken(write_json, make, on):
    p40 = {"server": "PowerEdge R740", "cards": [P40], "node": "rack7"}
    paths = [
        write_json("a.json", [on(P40, 900.0)], run="a", machine=p40),
        write_json("b.json", [on(P40, 1000.0)], run="b", started="2026-12-01T10:00:00Z"),
        write_json("c.json", [on(P4, 500.0)], run="c", machine=make.LAPTOP),
    ]
    table = cards_table(load(paths), "p40")
    assert sorted(c.text for c in column(table, "relative")) == ["0.50", "0.90", "1.00"]
    assert any(note.startswith("Several machines measured one") for note in table.notes)


# What must be said ----------------------------------------------------------------------------


def test_what_is_relative_to_a_figure_that_is_not_valid_is_marked(results, on):
    noisy = on(P40, 1000.0, per_watt=10.0, reasons=("noisy: ±9 %",))
    table = cards_table(results([noisy], [on(P4, 520.0, per_watt=14.0)]))
    assert [c.invalid for c in column(table, "images/s")] == [True, False]
    assert [c.invalid for c in column(table, "relative")] == [False, True]
    assert [c.invalid for c in column(table, "relative per W")] == [False, True]
    assert "relative to one Tesla P40, whose figure is not valid" in table.footnotes


def test_other_software_and_other_meters_are_footnotes(results, on):
    table = cards_table(
        results(
            [on(P40, 1000.0, per_watt=10.0)],
            [on(P4, 520.0, per_watt=14.0, version="2", meters=("ipmi",))],
        )
    )
    assert table.footnotes == (
        "measured with TensorRT 2, and one Tesla P40 with TensorRT 1",
        "power of ipmi, and of nvml for one Tesla P40",
    )


def test_without_power_there_are_no_columns_of_it(results, on):
    table = cards_table(results([on(P40, 1000.0)], [on(P4, 520.0)]))
    assert table.headers[-2:] == ("images/s", "relative")
    assert not any("watt" in note for note in table.notes)


# Reports --------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["terminal", "markdown"])
def test_a_report_of_two_cards_has_the_table(results, on, format):
    both = results([on(P4, 520.0)], [on(P40, 1000.0)])
    assert "Cards, relative to one Tesla P4\n" in render_all(both, format)
    assert "Cards, relative to one Tesla P40\n" in render_all(both, format, relative_to="p40")


def test_a_base_without_anything_beside_it_is_said(results, on):
    alone = results([on(P4, 520.0)])
    assert "no case was measured on several cards" in render_all(
        alone, "terminal", relative_to="p4"
    )
    assert "several cards" not in render_all(alone, "terminal")


def test_the_base_is_an_option_of_report(write_json, on):
    paths = [
        str(write_json("a.json", [on(P4, 520.0)], run="a")),
        str(write_json("b.json", [on(P40, 1000.0)], run="b", started="2026-12-01T10:00:00Z")),
    ]
    runner = CliRunner()
    shown = runner.invoke(cli, ["report", *paths, "--relative-to=p40"])
    assert shown.exit_code == 0
    assert "Cards, relative to one Tesla P40" in shown.output
    unknown = runner.invoke(cli, ["report", *paths, "--relative-to=v100"])
    assert unknown.exit_code == 2
    assert "is no card of these results: name one of Tesla P4, Tesla P40" in unknown.output
    refused = runner.invoke(cli, ["report", *paths, "--relative-to=p40", "--format=json"])
    assert refused.exit_code == 2
    assert "json holds one's own records" in refused.output
