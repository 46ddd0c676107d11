"""What others printed: transcribed as in their documents, never mixed into what was measured."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from click.testing import CliRunner
from fakes import measurements as made

from benchrack.command.cli import cli
from benchrack.errors import ResultsError
from benchrack.reports.beside import published_tables, relative
from benchrack.reports.published import QUANTITIES, built_in, load
from benchrack.reports.tables import render_all
from benchrack.statistics.interval import Interval

POINTS = built_in()
STUDY, P40, MIGACZ = "dell-p40-vs-p4-2017", "dell-p40-2017", "migacz-gtc-2017"
MLPERF, EXAMPLES = "mlperf-training-resnet50", "nvidia-deep-learning-examples"
SCALE_OUT, DAWNBENCH = "dell-scale-up-vs-scale-out-2019", "dawnbench"
NODES = ("", "2× ", "4× ")


def series(name, quantity, **wanted):
    """The values of one printed series, by the axes that are not given."""
    found = [
        p
        for p in POINTS
        if p.publication.name == name
        and p.quantity == quantity
        and all(getattr(p, key) == value for key, value in wanted.items())
    ]
    return [p.value for p in found]


# The data -------------------------------------------------------------------------------------


def test_every_figure_has_its_source_and_how_far_to_trust_it():
    assert len(POINTS) > 450
    for point in POINTS:
        assert point.publication.source
        assert point.publication.framework
        assert point.confidence in "ABCD"
        assert point.quantity in QUANTITIES
        assert point.card or point.system or point.quantity.startswith("top")
        # What was trained to, and on how many nodes, is said only of training.
        assert point.node_count is None or point.quantity.startswith("training_")


def test_no_figure_is_printed_twice():
    bare = [dataclasses.replace(p, value=None) for p in POINTS]
    assert len(set(bare)) == len(bare)


@pytest.mark.parametrize("model", ["alexnet", "googlenet"])
def test_the_study_says_that_a_p4_is_half_a_p40_and_that_both_scale_linearly(model):
    """Its conclusions, from its figures 1 and 2, which are relative to one P40."""
    rates = {
        card: series(STUDY, "images_per_s_relative", model=model, card=card)
        for card in ("Tesla P40", "Tesla P4")
    }
    assert rates["Tesla P40"] == pytest.approx([1, 2, 3], rel=0.005)
    for n, rate in enumerate(rates["Tesla P4"], 1):
        assert rate / n == pytest.approx(0.52, abs=0.011)
    per_watt = "images_per_s_per_w_above_idle_relative"
    p40 = series(
        STUDY, per_watt, model=model, card="Tesla P40", batch_size=128, where=_figure(model)
    )
    p4 = series(STUDY, per_watt, model=model, card="Tesla P4", batch_size=128, where=_figure(model))
    assert p40[0] == 1
    assert p40 == pytest.approx([1, 1, 1], abs=0.021)
    assert [a / b for a, b in zip(p4, p40, strict=False)] == pytest.approx([1.5] * 3, abs=0.1)


def _figure(model):
    return {"alexnet": "figure 1", "googlenet": "figure 2"}[model]


def test_the_labels_of_the_studys_third_figure_agree_with_its_first():
    """Why they are taken for images/s per watt: P4 ÷ P40 at batch 128 is the 1.42 of figure 1."""
    per_watt = "images_per_s_per_w_above_idle_relative"
    p40 = series(STUDY, per_watt, card="Tesla P40", where="figure 3")
    p4 = series(STUDY, per_watt, card="Tesla P4", where="figure 3")
    assert (len(p40), len(p4), p4[-2:]) == (9, 9, [None, None])
    assert p4[3] / p40[3] == pytest.approx(1.42, abs=0.005)
    assert {p.confidence for p in POINTS if p.where == "figure 3"} == {"D"}
    rates = series(P40, "images_per_s", model="alexnet", where="batch sizes")
    assert rates[3] / rates[0] == pytest.approx(20.6, abs=0.05)


def test_throughput_of_the_p40_grows_with_the_batch():
    alexnet = series(P40, "images_per_s", model="alexnet", where="batch sizes")
    googlenet = series(P40, "images_per_s", model="googlenet", where="batch sizes")
    assert alexnet == sorted(alexnet)
    assert googlenet[:-1] == sorted(googlenet[:-1])
    assert googlenet[-1] is None


def test_ratios_of_the_p40_are_those_that_its_blog_states():
    def at_128(model, precision, card="Tesla P40"):
        where = "FP32 and INT8"
        wanted = {"model": model, "precision": precision, "card": card, "where": where}
        return series(P40, "images_per_s", **wanted)[0]

    assert at_128("googlenet", "int8") / at_128("googlenet", "fp32") == pytest.approx(
        2.89, abs=5e-3
    )
    assert at_128("alexnet", "int8") / at_128("alexnet", "fp32") == pytest.approx(3.13, abs=5e-3)
    m40 = at_128("googlenet", "fp32", "Tesla M40")
    assert at_128("googlenet", "int8") / m40 == pytest.approx(4.4, abs=0.05)


@pytest.mark.parametrize(
    ("model", "expected"), [("googlenet", (1.999, 3.995)), ("alexnet", (1.99, 3.98))]
)
def test_several_p40_scale_as_the_reference_derives(model, expected):
    one, two, four = series(P40, "images_per_s", model=model, where="several GPUs")
    assert (two / one, four / one) == pytest.approx(expected, abs=5e-3)


@pytest.mark.parametrize("share", ["top1", "top5"])
def test_accuracy_drops_are_the_differences_of_the_columns(share):
    """To 0.01: they were printed from values before rounding."""
    models = ("resnet50", "resnet101", "resnet152", "vgg19", "googlenet", "alexnet")
    at_50 = {"precision": "int8", "conditions": "50 calibration batches of 25"}
    for model in models:
        (fp32,) = series(MIGACZ, f"{share}_percent", model=model, precision="fp32")
        (int8,) = series(MIGACZ, f"{share}_percent", model=model, **at_50)
        (drop,) = series(MIGACZ, f"{share}_drop_points", model=model, **at_50)
        assert fp32 - int8 == pytest.approx(drop, abs=0.0101)
    assert series(MIGACZ, "top1_percent", model="vgg16") == []


def test_int8_of_the_titan_x_is_faster_than_fp32_and_grows_with_the_batch():
    for model in ("resnet50", "resnet152", "vgg16", "vgg19", "googlenet", "alexnet"):
        int8, fp32 = (
            series(MIGACZ, "images_per_s", model=model, precision=precision)
            for precision in ("int8", "fp32")
        )
        assert len(int8) == len(fp32) == 5
        assert all(a > b for a, b in zip(int8, fp32, strict=True))
        assert all(a < b for a, b in itertools.pairwise(int8))
        assert fp32[0] < fp32[-1]  # VGG-16 dips from 261 at batch 1 to 257 at 2, as printed


def test_int8_of_the_model_zoo_is_within_a_point_of_fp32():
    for model in ("alexnet", "googlenet", "vgg16", "resnet50"):
        fp32, *int8 = series("onnx-model-zoo", "top1_percent", model=model)
        assert len(int8) == 2
        assert all(0 <= fp32 - other < 1 for other in int8)


def test_half_precision_of_the_v100_is_faster_than_single():
    for model in ("vgg16", "resnet50", "resnet152"):
        fp32, fp16 = (
            series("mxnet-v100", "images_per_s", model=model, precision=precision)
            for precision in ("fp32", "fp16")
        )
        assert len(fp32) == len(fp16) == 9
        assert all(b > a for a, b in zip(fp32, fp16, strict=True))


def test_mlperf_of_the_study_s_servers():
    rates = {p.where: p.value for p in POINTS if p.publication.name.startswith("mlperf-inference")}
    assert rates["v0.5, DellEMC, R740_T4x4_tensorrt"] == 22438
    assert rates["v0.7, DellEMC, R740_T4x4_TRT"] == 23844.3
    assert rates["v1.0, DellEMC, R740_A100-PCIe-40GBx3_TRT"] == 96298.6
    assert rates["v0.7, DellEMC, C4140_QuadroRTX6000x4_TRT"] == 59130.1
    latencies = [p.value for p in POINTS if p.quantity == "latency_p90_ms"]
    assert 0.3 < min(latencies) < max(latencies) < 1.1


# Training -------------------------------------------------------------------------------------


def test_several_c4140_scale_as_the_reference_derives():
    """2.01 and 3.96 times one of four cards; a run is as much shorter as images/s are more."""
    found = {"quantity": "training_images_per_s", "card": "Tesla V100-SXM2-32GB"}
    one, two, four = (series(MLPERF, **found, node_count=n)[0] for n in (1, 2, 4))
    assert (one, two, four) == (5596, 11244, 22155)
    assert (two / one, four / one) == pytest.approx((2.01, 3.96), abs=0.005)
    minutes = [series(MLPERF, "training_time_min", system=f"{n}PowerEdge C4140") for n in NODES]
    assert minutes == [[154.04], [76.59], [39.88]]
    assert minutes[0][0] / minutes[1][0] == pytest.approx(two / one, rel=0.005)
    assert {p.confidence for p in POINTS if p.publication.name == MLPERF} == {"D"}


def test_scale_up_vs_scale_out_has_the_two_efficiencies_that_could_be_read():
    points = [p for p in POINTS if p.publication.name == SCALE_OUT]
    assert [(p.value, p.conditions) for p in points] == [
        (97, "inside a node"),
        (92, "across nodes"),
    ]
    assert {(p.quantity, p.model, p.precision, p.confidence) for p in points} == {
        ("training_efficiency_percent", "", "", "A")
    }


def test_speed_ups_in_training_are_below_the_number_of_gpus():
    speed_ups = [
        p
        for p in POINTS
        if p.quantity == "training_images_per_s_relative" and p.relative_to == "one GPU"
    ]
    assert {p.device_count for p in speed_ups} == {4, 8, 16, 32}
    assert all(0.6 < p.value / p.device_count < 1 for p in speed_ups)


def test_training_on_eight_gpus_is_six_to_eight_times_as_fast_as_on_one():
    """NVIDIA's and Lambda's examples; of eight H200 too."""
    points = [p for p in POINTS if p.quantity == "training_images_per_s" and not p.conditions]
    of_one = {
        (p.publication.name, p.framework, p.card, p.precision): p.value
        for p in points
        if p.device_count == 1
    }
    ratios = [
        p.value / of_one[key]
        for p in points
        if p.device_count == 8
        and (key := (p.publication.name, p.framework, p.card, p.precision)) in of_one
    ]
    assert len(ratios) == 16
    assert all(6.7 < ratio < 8 for ratio in ratios)


def test_mixed_precision_is_no_half_precision_and_says_so():
    points = [p for p in POINTS if p.publication.name == EXAMPLES and p.precision == "fp16"]
    assert points
    assert all("automatic mixed precision" in p.citation for p in points)
    fp32, amp = (
        series(EXAMPLES, "images_per_s", card="Tesla T4", precision=precision)
        for precision in ("fp32", "fp16")
    )
    assert (fp32, amp) == ([98, 363, 420, 426, 415], [79, 652, 1128, 1190, 1198])


def test_alexnet_in_training_runs_out_of_memory_where_it_did():
    alexnet = series("mxnet-v100", "training_images_per_s", model="alexnet")
    assert alexnet[-2:] == [1984.21, None]
    assert series("mxnet-v100", "training_images_per_s", model="resnet50", batch_size=128) == [
        363.69
    ]


def test_training_stands_beside_no_inference(session, own):
    """DLE's 384 images/s of FP32 are training, 1229 at batch 128 inference."""
    shown = published_tables(session(own(400.0, precision="fp32", model="resnet50")))
    values = {row[table.headers.index("published")].value for table in shown for row in table.rows}
    assert 1229 in values
    assert not values & {384, 367, 412, 363.69}


# Caveats --------------------------------------------------------------------------------------


def test_caffes_alexnet_is_not_taken_for_torchvisions():
    points = [
        p for p in POINTS if p.model == "alexnet" and p.publication.name in (STUDY, P40, MIGACZ)
    ]
    assert points
    assert all("not torchvision's" in p.citation for p in points)


# Files ----------------------------------------------------------------------------------------

FILE = """
title = "T"
author = "A"
source = "S"
framework = "F"

[[series]]
quantity = "images_per_s"
model = "alexnet"
precision = "int8"
batch_size = [1, 8]
values = [10, "out of memory"]
confidence = "A"
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "theirs.toml"
        path.write_text(text)
        return path

    return write


def test_a_series_becomes_points(file):
    one, two = load(file(FILE))
    assert (one.batch_size, one.value, one.framework) == (1, 10.0, "F")
    assert (two.batch_size, two.value) == (8, None)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('confidence = "A"', 'confidence = "E"', "series 1: confidence must be A, B, C or D"),
        ('confidence = "A"', "", "series 1: confidence is missing"),
        ("images_per_s", "images", "unknown quantity 'images'"),
        ("images_per_s", "images_per_s_relative", "relative_to must say"),
        ("batch_size", "batchsize", "unknown key 'batchsize'"),
        ("[1, 8]", "[1, 8, 9]", "2 values for 3 batch_size"),
        ('"alexnet"', '["alexnet", "vgg16"]', "model and batch_size are lists"),
        ("[10,", '["ten",', "'ten' is neither a figure nor"),
        ('source = "S"', "", "source is missing"),
        ("[10,", "[10", "is not TOML"),
    ],
)
def test_a_mistake_in_a_file_is_named(file, old, new, words):
    assert old in FILE
    with pytest.raises(ResultsError, match=r"theirs\.toml") as raised:
        load(file(FILE.replace(old, new, 1)))
    assert words in str(raised.value)


# Beside one's own -----------------------------------------------------------------------------


@pytest.fixture
def session(session):
    """The results of one run, of these measurements."""
    return lambda *measurements: session(measurements)


@pytest.fixture
def own(make):
    """A case of one's own in INT8."""

    def build(rate=None, precision="int8", model="googlenet", batch_size=128, **more):
        measured = make.measured(rate, model=model, batch_size=batch_size, **more)
        return made.but(measured, preparation={"asked_precision": precision})

    return build


def rows(table, *headers):
    places = [table.headers.index(header) for header in headers]
    return [[row[place].text for place in places] for row in table.rows]


def test_published_rates_stand_in_a_column_of_their_own(session, own):
    (table,) = published_tables(session(own(6000.0)))
    assert table.title == "Throughput beside published, images/s"
    assert rows(table, "measured", "published", "published: on") == [
        ["6000", "6410", "Tesla P40"],
        ["6000", "6406", "Tesla P40"],
        ["6000", "6410", "Tesla P40"],
        ["6000", "7282", "Titan X (Pascal)"],
    ]
    assert all(note.startswith("published: ") for note in table.footnotes)
    assert "(confidence A)" in table.footnotes[0]


@pytest.mark.parametrize(
    "other", [{"precision": "bf16"}, {"batch_size": 100}, {"model": "efficientnet-lite0"}]
)
def test_another_model_precision_or_batch_is_not_beside(session, own, other):
    assert published_tables(session(own(6000.0, **other))) == []


def test_another_device_count_is_not_beside(session, own):
    (table,) = published_tables(session(own(12000.0, device_count=2)))
    assert rows(table, "published", "published: on") == [["12808", "2× Tesla P40"]]


def test_a_batch_that_a_submitter_chose_is_beside_the_fastest_of_ones_own(session, own):
    tables = published_tables(
        session(*(own(100.0 + b, model="resnet50", batch_size=b) for b in (2, 64, 256)))
    )
    mlperf = [row for row in tables[0].rows if "T4" in row[-1].text]
    assert mlperf
    assert {row[2].value for row in mlperf} == {256}


def test_what_did_not_fit_elsewhere_says_so(session, own):
    (table,) = published_tables(session(own(7000.0, batch_size=4096)))
    assert rows(table, "published") == [["OOM"]]


def test_speed_up_stands_beside_the_studys(session, own):
    results = session(own(1000.0), own(1990.0, device_count=2))
    scaling = next(t for t in published_tables(results) if "devices" in t.title)
    found = {(a, b) for a, b in rows(scaling, "published", "published: on")}
    assert ("2.00", "2× Tesla P40") in found
    assert ("2.04", "2× Tesla P4") in found  # 1.06 ÷ 0.52
    assert {a for (a,) in rows(scaling, "measured")} == {"1.99"}


def test_a_speed_up_over_what_is_not_valid_is_marked_beside_the_studys(session, own):
    noisy = own(1000.0, reasons=("noisy: ±9 %",))
    tables = published_tables(session(noisy, own(1990.0, device_count=2)))
    scaling = next(t for t in tables if "devices" in t.title)
    measured = [row[scaling.headers.index("measured")] for row in scaling.rows]
    assert all(cell.invalid and cell.notes for cell in measured)
    assert any("relative to another figure, which is not valid" in n for n in scaling.footnotes)


def test_what_was_not_printed_so_is_computed_and_said_to_be():
    points = [p for p in POINTS if p.publication.name == STUDY and p.where == "figure 1"]
    rates = [p for p in points if p.quantity == "images_per_s_relative"]
    found = relative(rates, "device_count")
    p40 = [p for p in found if p.card == "Tesla P40"]
    p4 = [p for p in found if p.card == "Tesla P4"]
    assert [(p.value, p.confidence) for p in p40] == [(2.0, "A"), (2.99, "A")]
    assert [p.value for p in p4] == pytest.approx([1.05 / 0.52, 1.56 / 0.52, 2.09 / 0.52])
    assert {p.confidence for p in p4} == {"D"}
    assert all("figure 1, computed" in p.citation for p in p4)


def test_series_without_one_device_are_relative_to_nothing():
    (some, *_) = [p for p in POINTS if p.publication.name.startswith("mlperf")]
    assert relative([some], "device_count") == []


def test_accuracy_stands_beside_whatever_the_batch(session, own):
    top1 = Interval(value=0.6951, low=0.69, high=0.70)
    accuracy = {"images": 48750, "top1": top1, "top1_drop_points": 0.27}
    measured = own(accuracy=accuracy, batch_size=25, trained=True)
    (table,) = published_tables(session(measured))
    found = rows(table, "figure", "measured", "published")
    assert ["top-1 %", "69.5", "68.12"] in found
    assert ["top-1 drop", "0.27", "0.45"] in found
    assert any("50 calibration batches of 25" in note for note in table.footnotes)


def test_random_weights_have_no_accuracy_to_stand_beside(session, own, make):
    assert published_tables(session(own(accuracy=make.shares(), batch_size=25))) == []


def test_latency_stands_beside_mlperfs(session, own):
    measured = own(p50=2.0, model="resnet50", batch_size=1)
    p90 = Interval(value=2.5, low=2.4, high=2.6)
    (table,) = published_tables(session(made.but(measured, p50=None, p90=p90)))
    assert ["2.500", "1.086", "NVIDIA T4"] in rows(table, "measured", "published", "published: on")


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_dawnbenchs_latencies_stand_beside_any_precision_and_say_so(session, own, precision):
    """Its entries' precision is not known."""
    measured = own(p50=2.0, model="resnet50", batch_size=1, precision=precision)
    (table,) = published_tables(session(measured))
    beside = [row for row in table.rows if row[-1].text == "Tesla P4"]
    place = table.headers.index("published")
    assert [row[place].text for row in beside] == ["4.218", "2.270", "1.544", "1.433"]
    assert {row[place - 1].value for row in beside} == {2.0}
    notes = {table.footnotes[row[place].notes[0] - 1] for row in beside}
    assert all("the precision is the entry's own choice; mean or median" in n for n in notes)
    assert any("top-5 93.73 %" in note for note in notes)


def test_what_is_not_valid_stays_so_beside_others(session, own):
    (table,) = published_tables(session(own(6000.0, reasons=("noisy: ±9 %",))))
    measured = [row[table.headers.index("measured")] for row in table.rows]
    assert all(cell.invalid for cell in measured)
    assert not any(row[table.headers.index("published")].invalid for row in table.rows)


@pytest.mark.parametrize("format", ["terminal", "markdown"])
def test_a_report_has_published_figures_only_if_asked(session, own, format):
    results = session(own(6000.0))
    assert "6410" not in render_all(results, format)
    assert "6410" in render_all(results, format, published=True)


def test_nothing_in_common_is_said(session, own):
    assert "nothing that is published here" in render_all(
        session(own(6000.0, batch_size=100)), "terminal", published=True
    )


def test_data_formats_hold_ones_own_records_alone(write_json, own):
    path = write_json("a.json", [own(6000.0)])
    runner = CliRunner()
    refused = runner.invoke(cli, ["report", str(path), "--published", "--format", "csv"])
    assert refused.exit_code == 2
    assert "csv holds one's own records" in refused.output
    shown = runner.invoke(cli, ["report", str(path), "--published"])
    assert shown.exit_code == 0
    assert "6410" in shown.output


# The list of what is published ----------------------------------------------------------------


def listed(*names):
    return CliRunner().invoke(cli, ["list", "published", *names])


def test_publications_are_listed_with_how_far_to_trust_them():
    shown = listed()
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    for name in {p.publication.name for p in POINTS}:
        assert sum(line.startswith(f"{name} ") for line in lines) == 1
    (study,) = (line.split() for line in lines if line.startswith(STUDY))
    assert study[-4:] == ["2017-07", "46", "A", "D"]


def test_a_named_publication_is_shown_with_every_figure_and_its_source():
    shown = listed(SCALE_OUT, DAWNBENCH)
    assert shown.exit_code == 0
    assert "Source: white paper, 52 pages" in shown.output
    assert "within 7.8 % of one node" in shown.output
    figures = [line.split() for line in shown.output.splitlines() if line.startswith("training_")]
    assert ["training_efficiency_percent", "Tesla", "P100-PCIE-16GB", "97", "A"] in [
        words[:5] for words in figures
    ]
    assert "images/s in training" in shown.output  # what the quantity is
    assert "1.5439" in shown.output


def test_what_ran_out_of_memory_is_listed_as_that():
    assert "out of memory" in listed("mxnet-v100").output


def test_an_unknown_publication_names_the_known():
    shown = listed("dawnbensh")
    assert shown.exit_code == 2
    assert "unknown publication 'dawnbensh'. Did you mean 'dawnbench'?" in shown.output
