"""The tables: what each cell says, what stands below them, and how they are drawn."""

from __future__ import annotations

import csv
import io
import json

import pytest
from fakes import measurements as made
from fakes.tables import column, texts

from benchrack.records.record import to_record
from benchrack.reports.accuracy import accuracy_table
from benchrack.reports.latency import latency_table
from benchrack.reports.power import power_table
from benchrack.reports.records import load
from benchrack.reports.tables import FORMATS, render_all
from benchrack.reports.throughput import throughput_table
from benchrack.statistics.interval import Interval
from benchrack.vocabulary.results import Power

# Throughput -----------------------------------------------------------------------------------


def test_throughput_has_a_row_a_backend_and_a_column_a_batch(session, make):
    table = throughput_table(
        session(
            [
                make.measured(200.4, batch_size=8),
                make.measured(50.04, batch_size=1),
                make.measured(25.0, backend="pytorch-fp16", batch_size=1, half=0.05),
            ]
        )
    )
    assert table.headers == ("model", "backend", "batch 1", "batch 8")
    assert texts(table) == [
        ["resnet50", "pytorch-fp32", "50.04 ±0.8 %", "200.4 ±0.8 %"],
        ["resnet50", "pytorch-fp16", "25.00 ±5.0 %", ""],
    ]
    assert column(table, "batch 1")[0].value == 50.04
    assert table.footnotes == ()
    assert "Measured on PowerEdge R740, 4× Tesla P4, cpu." in table.notes


def test_models_and_backends_keep_their_order_of_appearance(session, make):
    pairs = [("vgg16", "pytorch-fp32"), ("alexnet", "onnxruntime-int8")]
    pairs += [("alexnet", "pytorch-fp32"), ("vgg16", "onnxruntime-int8")]
    measurements = [make.measured(1.0, model=m, backend=b) for m, b in pairs]
    assert [row[:2] for row in texts(throughput_table(session(measurements)))] == [
        ["vgg16", "pytorch-fp32"],
        ["vgg16", "onnxruntime-int8"],
        ["alexnet", "pytorch-fp32"],
        ["alexnet", "onnxruntime-int8"],
    ]


def test_nothing_asked_gives_no_table(session, make):
    results = session([make.measured(p50=8.0)])
    assert throughput_table(results) is None
    assert accuracy_table(results) is None
    assert power_table(results) is None


@pytest.mark.parametrize(
    ("status", "mark"),
    [
        ("unsupported", "n/a"),
        ("out-of-memory", "OOM"),
        ("failed", "failed"),
        ("interrupted", "stopped"),
        ("not-run", "not run"),
        ("abducted", "abducted"),
    ],
)
def test_a_missed_case_fills_its_gap_with_a_reason(session, make, status, mark):
    results = session(
        [make.measured(10.0), make.measured(5.0, model="vgg16")],
        [make.missed(status, "because", batch_size=8)],
    )
    table = throughput_table(results)
    assert texts(table)[0] == ["resnet50", "pytorch-fp32", "10.00 ±0.8 %", f"{mark} [1]"]
    assert table.footnotes == (f"{status}: because",)


def test_the_same_reason_has_one_number(session, make):
    outcomes = [
        make.missed("unsupported", "no card", backend="pytorch-tf32"),
        make.missed("unsupported", "no card", backend="pytorch-tf32", batch_size=8),
        make.missed("failed", "boom", model="vgg16"),
    ]
    table = throughput_table(session([], outcomes))
    assert table.footnotes == ("unsupported: no card", "failed: boom")
    assert texts(table) == [
        ["resnet50", "pytorch-tf32", "n/a [1]", "n/a [1]"],
        ["vgg16", "pytorch-fp32", "failed [2]", ""],
    ]


def test_a_traceback_is_told_by_its_last_line(session, make):
    reason = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: no such op\n'
    table = throughput_table(session([], [make.missed("failed", reason)]))
    assert table.footnotes == ("failed: ValueError: no such op",)


def test_other_long_reasons_by_their_first_line(session, make):
    table = throughput_table(session([], [make.missed("failed", "rank 1 died\nlog: …")]))
    assert table.footnotes == ("failed: rank 1 died",)


def test_an_invalid_figure_is_marked_with_its_reasons(session, make):
    table = throughput_table(session([make.measured(10.0, reasons=("noisy", "throttled"))]))
    assert texts(table)[0][-1] == "10.00 ±0.8 % ! [1,2]"
    assert table.footnotes == ("not valid, noisy", "not valid, throttled")
    assert any(note.startswith("! marks") for note in table.notes)


def test_a_deviation_of_the_engine_is_told_once(session, make):
    """In the reason of the verdict where there is one, else as a footnote of its own."""
    said = "computes in FP32 with casts"
    table = throughput_table(session([make.measured(10.0, deviations=(said,))]))
    assert (texts(table)[0][-1], table.footnotes) == ("10.00 ±0.8 % [1]", (said,))
    verdict = make.measured(10.0, deviations=(said,), reasons=(f"fell-back: {said}",))
    assert throughput_table(session([verdict])).footnotes == (f"not valid, fell-back: {said}",)


def test_a_measurement_without_a_rate_is_empty_and_not_zero(session, make):
    table = throughput_table(session([make.measured(scenario="throughput")]))
    assert texts(table)[0][-1] == ""


def test_engines_of_one_backend_are_told_apart(session, make):
    measurements = [
        make.measured(10.0, engine="ONNX Runtime CPU"),
        make.measured(90.0, engine="ONNX Runtime TensorRT", device="cuda:0"),
    ]
    table = throughput_table(session(measurements))
    assert table.headers[:4] == ("model", "backend", "engine", "device")
    assert [row[2:4] for row in texts(table)] == [
        ["ONNX Runtime CPU", "cpu"],
        ["ONNX Runtime TensorRT", "cuda:0"],
    ]


def test_different_engines_of_different_backends_need_no_column(session, make):
    measurements = [
        make.measured(10.0),
        make.measured(30.0, backend="onnxruntime-int8", engine="ONNX Runtime CPU"),
    ]
    assert throughput_table(session(measurements)).headers == ("model", "backend", "batch 1")


def test_device_counts_above_one_are_rows(session, make):
    measurements = [make.measured(10.0 * n, device_count=n) for n in (1, 2)]
    table = throughput_table(session(measurements))
    assert table.headers == ("model", "backend", "devices", "batch 1")
    assert [str(cell) for cell in column(table, "devices")] == ["1", "2"]


def test_a_missed_device_count_gets_its_own_row(session, make):
    table = throughput_table(
        session(
            [make.measured(10.0, device="cuda:0"), make.measured(9.0, device="cpu", model="vgg16")],
            [make.missed("unsupported", "1 present, 4 asked", device_count=4)],
        )
    )
    assert texts(table) == [
        ["resnet50", "pytorch-fp32", "cuda:0", "1", "10.00 ±0.8 %"],
        ["resnet50", "pytorch-fp32", "", "4", "n/a [1]"],
        ["vgg16", "pytorch-fp32", "cpu", "1", "9.000 ±0.8 %"],
    ]


def test_what_the_time_includes_is_a_column_where_it_differs(session, make):
    measurements = [
        make.measured(10.0, transfer=t, device="cuda:0") for t in ("exclude", "include")
    ]
    table = throughput_table(session(measurements))
    assert [str(c) for c in column(table, "transfers")] == ["exclude", "include"]
    alone = throughput_table(session(measurements[:1]))
    assert "transfers" not in alone.headers
    assert any("not inside the time" in note for note in alone.notes)


# Machines, runs, starts -----------------------------------------------------------------------


def test_machines_never_mix_unlabelled(write_json, make):
    paths = [
        write_json("a.json", [make.measured(100.0), make.measured(7.0, model="vgg16")]),
        write_json("b.json", [make.measured(10.0)], run="r2", machine=make.LAPTOP),
    ]
    table = throughput_table(load(paths))
    laptop = "AMD Ryzen 7 5800U with Radeon Graphics"
    assert table.headers == ("model", "backend", "machine", "batch 1")
    assert [row[2:] for row in texts(table)] == [
        ["PowerEdge R740, 4× Tesla P4", "100.0 ±0.8 %"],
        [laptop, "10.00 ±0.8 %"],
        ["PowerEdge R740, 4× Tesla P4", "7.000 ±0.8 %"],
    ]
    for text in (render_all(load(paths), f) for f in FORMATS):
        assert laptop in text


def test_a_miss_of_another_machine_is_that_machines(write_json, make):
    oom = make.missed("out-of-memory", "8 GiB", batch_size=8)
    paths = [
        write_json("a.json", [make.measured(1.0), make.measured(2.0, batch_size=8)]),
        write_json("b.json", [make.measured(3.0)], [oom], run="r2", machine=make.LAPTOP),
    ]
    assert [row[3:] for row in texts(throughput_table(load(paths)))] == [
        ["1.000 ±0.8 %", "2.000 ±0.8 %"],
        ["3.000 ±0.8 %", "OOM [1]"],
    ]


def test_the_newest_run_is_shown_and_said(write_json, make):
    paths = [
        write_json("new.json", [make.measured(20.0)], run="new", started="2026-12-02T00:00:00Z"),
        write_json(
            "old.json",
            [make.measured(10.0), make.measured(5.0, batch_size=8)],
            run="old",
            started="2026-12-01T00:00:00Z",
        ),
    ]
    table = throughput_table(load(paths))
    assert texts(table)[0][2:] == ["20.00 ±0.8 %", "5.000 ±0.8 %"]
    assert any("1 of 2 cases" in note and "newest, new" in note for note in table.notes)
    assert render_all(load(paths), "csv").count("\n") == 4  # every record is in the tidy form


def test_a_later_failure_hides_no_figure(write_json, make):
    paths = [
        write_json("a.json", [make.measured(10.0)], run="a", started="2026-12-01T00:00:00Z"),
        write_json(
            "b.json",
            [],
            [make.missed("failed", "boom")],
            run="b",
            started="2026-12-02T00:00:00Z",
        ),
        write_json(
            "c.json",
            [],
            [make.missed("not-run", "Ctrl-C")],
            run="c",
            started="2026-12-03T00:00:00Z",
        ),
    ]
    table = throughput_table(load(paths))
    assert texts(table)[0][-1] == "10.00 ±0.8 % [1]"
    assert table.footnotes == ("later, in run b: failed: boom",)


def test_an_earlier_failure_is_over(write_json, make):
    paths = [
        write_json(
            "a.json", [], [make.missed("failed", "boom")], run="a", started="2026-12-01T00:00:00Z"
        ),
        write_json("b.json", [make.measured(10.0)], run="b", started="2026-12-02T00:00:00Z"),
    ]
    table = throughput_table(load(paths))
    assert texts(table)[0][-1] == "10.00 ±0.8 %"
    assert table.footnotes == ()


def test_starts_of_a_run_are_pooled_by_their_median(session, make):
    """Three starts have no 95 % interval of their median: the range stands in, and that is said."""
    table = throughput_table(session([make.measured(rate) for rate in (11.0, 10.0, 10.5)]))
    assert table.headers == ("model", "backend", "starts", "batch 1")
    assert texts(table)[0][2:] == ["3", "10.50 ±4.8 %"]
    assert any("range of the starts" in note for note in table.notes)


def test_six_starts_have_an_interval_of_their_own(session, make):
    """At 95 % six starts give their extremes, and eight the second from either end would not do:
    for n = 9 it does (Conover: ranks 2 and 8)."""
    rates = [90.0, 96.0, 97.0, 99.0, 100.0, 101.0, 102.0, 104.0, 120.0]
    table = throughput_table(session([make.measured(rate) for rate in rates]))
    assert texts(table)[0][2:] == ["9", "100.0 ±4.0 %"]


def test_rows_of_unequal_starts_say_so(session, make):
    measurements = [make.measured(r, batch_size=b) for r, b in ((1.0, 1), (2.0, 8), (2.1, 8))]
    assert texts(throughput_table(session(measurements)))[0][2] == "1–2"


def test_a_start_that_failed_is_told_beside_the_others(session, make):
    table = throughput_table(session([make.measured(10.0)], [make.missed("failed", "boom")]))
    assert table.footnotes == ("another start: failed: boom",)


# Latency --------------------------------------------------------------------------------------


def test_latency_shows_only_supported_percentiles(session, make):
    table = latency_table(
        session([make.measured(p50=8.0)], [make.missed("failed", "boom", "latency", model="vgg16")])
    )
    assert table.headers == ("model", "backend", "batch", "p50 ms", "samples")
    assert texts(table) == [
        ["resnet50", "pytorch-fp32", "1", "8.000 ±1.0 %", "100"],
        ["vgg16", "pytorch-fp32", "1", "failed [1]", ""],
    ]


def test_latency_of_misses_only_has_a_column_for_them(session, make):
    table = latency_table(session([], [make.missed("failed", "boom", "latency")]))
    assert texts(table) == [["resnet50", "pytorch-fp32", "1", "failed [1]"]]


# Accuracy -------------------------------------------------------------------------------------


def test_accuracy_of_trained_weights(session, make):
    accuracy = make.shares(
        top5=Interval(value=1.0, low=0.796, high=1.0), top1_drop_points=-0.5, reference_top1=0.795
    )
    measurement = make.measured(accuracy=accuracy, trained=True, weights="shipped 1.0")
    table = accuracy_table(session([measurement]))
    assert table.headers == (
        *("model", "backend", "N", "top-1", "top-5", "drop", "agree", "cosine"),
    )
    assert texts(table)[0][2:] == [
        *("15", "80.0 [54.8, 93.0]", "100.0", "-0.50", "100.0", "0.99997"),
    ]
    assert "Weights: resnet50: shipped 1.0." in table.notes


def test_accuracy_of_random_weights_is_never_shown(session, make):
    results = session([make.measured(accuracy=make.shares(top1_drop_points=1.0), trained=False)])
    table = accuracy_table(results)
    assert table.headers == ("model", "backend", "N", "agree", "cosine")
    assert any("Untrained weights have no accuracy" in note for note in table.notes)
    (record,) = json.loads(render_all(results, "json"))["records"]
    assert "accuracy_top1" not in record


def test_weights_are_a_column_where_a_model_has_several(session, make):
    accuracy = make.shares()
    measurements = [
        make.measured(accuracy=accuracy, case_weights=asked, weights=used, trained=True)
        for asked, used in (("torchvision", "ImageNet V2"), ("folder", "ours"))
    ]
    table = accuracy_table(session(measurements))
    assert [str(c) for c in column(table, "weights")] == ["ImageNet V2", "ours"]
    assert not any(note.startswith("Weights") for note in table.notes)


def test_unreadable_images_are_named(session, make):
    accuracy = make.shares(unreadable=("a.jpg", "b.jpg", "c.jpg", "d.jpg"))
    table = accuracy_table(session([make.measured(accuracy=accuracy)]))
    assert table.footnotes == ("4 images could not be read: a.jpg, b.jpg, c.jpg and 1 more",)
    assert str(column(table, "N")[0]) == "15 [1]"


def test_starts_that_differ_in_accuracy_say_so(session, make):
    measurements = [make.measured(accuracy=make.shares(top1=t), trained=True) for t in (0.8, 0.7)]
    table = accuracy_table(session(measurements))
    assert table.footnotes == ("the starts differ in accuracy; the last is shown",)
    assert column(table, "top-1")[0].value == pytest.approx(70.0)


# Power ----------------------------------------------------------------------------------------


def metered(measurement, meters=("nvml",), **power):
    return made.but(measurement, power=Power(meters=meters, **power))


def test_power_shows_what_meters_measured(session, make):
    seen = {"average_power_w": 70.0, "images_per_s_per_w": 1.5, "energy_window_too_short": True}
    measured = metered(make.measured(105.0), **seen)
    table = power_table(session([measured, make.measured(9.0, model="vgg16")]))
    assert table.headers == ("model", "backend", "batch", "images/s", "power W", "images/s/W")
    assert texts(table) == [["resnet50", "pytorch-fp32", "1", "105.0 ±0.8 % [1]", "70.00", "1.500"]]
    assert "longer window" in table.footnotes[0]


ENERGY_ONLY = "energy-uncertain: energy is known to ±6.0% only (limit ±3.5%)"


def test_what_speaks_against_energy_alone_marks_the_energy_and_not_the_images(session, make):
    of_images = {"images_per_s_per_w": 1.5, "images_per_s_per_w_above_idle": 2.1}
    measured = make.measured(105.0, reasons=(ENERGY_ONLY,))
    watts = {"average_power_w": 70.0, "idle_power_w": 20.0}
    results = session([metered(measured, energy_per_image_j=0.7, **watts, **of_images)])
    table = power_table(results)
    assert table.footnotes == (f"not valid, {ENERGY_ONLY}",)
    marked = [h for h, cell in zip(table.headers, table.rows[0], strict=True) if cell.invalid]
    assert marked == ["power W", "J/image", "images/s/W", "above idle"]
    assert str(column(table, "J/image")[0]) == "0.7000 ! [1]"
    assert [note for note in table.notes if note.startswith("! marks")]
    rates = throughput_table(results)
    assert not column(rates, "batch 1")[0].mark
    assert not rates.footnotes
    assert not [note for note in rates.notes if note.startswith("! marks")]


def test_a_row_with_both_kinds_of_reasons_has_each_where_it_belongs(session, make):
    measured = make.measured(105.0, reasons=("noisy: by 9 %", ENERGY_ONLY))
    table = power_table(session([metered(measured, average_power_w=70.0)]))
    assert table.footnotes == ("not valid, noisy: by 9 %", f"not valid, {ENERGY_ONLY}")
    assert column(table, "images/s")[0].mark == "! [1]"
    assert column(table, "power W")[0].mark == "! [2]"


def test_energy_of_an_image_and_idle_power_have_their_uncertainty(session, make):
    energy = {"energy_j": 700.0, "energy_uncertainty_j": 21.0, "energy_per_image_j": 0.7}
    idle = {"idle_power_w": 20.0, "idle_power_spread_w": 0.1}
    measured = metered(make.measured(100.0), average_power_w=70.0, **energy, **idle)
    table = power_table(session([measured]))
    assert str(column(table, "J/image")[0]) == "0.7000 ±3.0 %"
    assert str(column(table, "idle W")[0]) == "20.00 ±0.5 %"
    assert column(table, "J/image")[0].value == 0.7
    assert [note for note in table.notes if note.startswith("Idle power ±")]
    assert table.title == "Throughput against power"


def test_energy_without_an_uncertainty_is_shown_without(session, make):
    seen = {"energy_j": 700.0, "energy_per_image_j": 0.7, "idle_power_w": 20.0}
    table = power_table(session([metered(make.measured(100.0), ("lab",), **seen)]))
    assert str(column(table, "J/image")[0]) == "0.7000"
    assert str(column(table, "idle W")[0]) == "20.00"


def test_the_whole_system_has_columns_of_its_own(session, make):
    measured = metered(
        make.measured(100.0),
        ("wall",),
        system_meter="wall",
        system_energy_j=4000.0,
        system_energy_uncertainty_j=80.0,
        system_power_w=400.0,
        system_idle_power_w=150.0,
        system_idle_power_spread_w=3.0,
        system_images_per_s_per_w=0.25,
        system_images_per_s_per_w_above_idle=0.4,
    )
    table = power_table(session([measured]))
    assert table.headers[4:] == (
        "system W",
        "system idle W",
        "system images/s/W",
        "system above idle",
    )
    assert texts(table)[0][4:] == ["400.0 ±2.0 %", "150.0 ±2.0 %", "0.2500", "0.4000"]


# Drawing --------------------------------------------------------------------------------------


@pytest.fixture
def varied(session, make):
    return session(
        [
            make.measured(1234.5, batch_size=1),
            make.measured(9.87, batch_size=1, backend="pytorch-fp16", reasons=("a | <b>",)),
            make.measured(p50=8.0),
            make.measured(accuracy=make.shares(), trained=True),
        ],
        [make.missed("out-of-memory", "no room", batch_size=8)],
    )


def test_terminal_text_is_aligned(varied):
    lines = render_all(varied, "terminal").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("model"))
    first, second = lines[start + 2 : start + 4]
    assert first.rstrip() == "resnet50  pytorch-fp32  1234     ±0.8 %        OOM [1]"
    assert second.rstrip() == "resnet50  pytorch-fp16     9.870 ±0.8 % ! [2]"
    assert "[1] out-of-memory: no room" in lines


def test_a_wide_table_is_printed_in_parts(session, make):
    """Nine batch sizes, as the P40-vs-P4 study has."""
    batches = (1, 32, 64, 128, 256, 512, 1024, 2048, 4096)
    results = session([make.measured(1000.0 + b, batch_size=b) for b in batches])
    text = render_all(results, "terminal")
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    end = next(i for i, line in enumerate(lines) if "relative to batch 1" in line)
    headers = [line for line in lines[:end] if line.startswith("model")]
    assert len(headers) == 2
    assert all("backend" in line for line in headers)
    found = [word for line in headers for word in line.split() if word.isdigit()]
    assert found == [str(b) for b in batches]
    assert len(render_all(results, "terminal", width=400).splitlines()) < len(lines)


def test_a_column_that_is_wider_than_the_terminal_is_still_printed(varied):
    assert "1234" in render_all(varied, "terminal", width=10)


def test_markdown_escapes_what_would_break_a_cell(varied):
    text = render_all(varied, "markdown")
    assert "### Throughput, images/s" in text
    assert "2. not valid, a \\| &lt;b>" in text
    row = next(line for line in text.splitlines() if "1234" in line)
    assert [cell.strip() for cell in row.strip("|").split("|")][:2] == ["resnet50", "pytorch-fp32"]


def test_markdown_tells_what_was_not_read(write_json, make, tmp_path):
    results = load([write_json("a.json", [make.measured(1.0)]), tmp_path / "gone.json"])
    assert "gone.json does not exist" in render_all(results, "markdown")


def test_csv_is_tidy(varied, make):
    rows = list(csv.DictReader(io.StringIO(render_all(varied, "csv"))))
    assert [row["status"] for row in rows] == [*["measured"] * 4, "out-of-memory"]
    assert [row["images_per_s"] for row in rows] == ["1234.5", "9.87", "", "", ""]
    assert {row["machine"] for row in rows} == {"PowerEdge R740, 4× Tesla P4"}
    assert rows[1]["reasons"] == "a | <b>"
    assert rows[3]["trained"] == "true"
    assert rows[4]["reason"] == "no room"
    assert set(to_record(make.measured(1.0))) <= set(rows[0])


def test_json_is_strict_and_complete(varied, make):
    report = json.loads(
        render_all(varied, "json"), parse_constant=lambda word: pytest.fail(f"{word} is not JSON")
    )
    assert (report["kind"], report["schema"]) == ("benchrack-report", 1)
    assert len(report["records"]) == 4
    record = report["records"][0]
    flat = to_record(make.measured(1234.5))
    flat["machine"] = "PowerEdge R740, 4× Tesla P4"  # a report has the label, not the digest
    assert {key: record[key] for key in flat} == flat
    assert record["run"] == "r1"
    assert report["outcomes"][0]["reason"] == "no room"


def test_a_json_report_is_not_taken_for_results(varied, write_json, make, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(render_all(varied, "json"))
    write_json("a.json", [make.measured(1.0)])
    assert load([tmp_path]).problems == ()


@pytest.mark.parametrize("format", FORMATS)
def test_a_report_can_be_empty(session, format):
    assert render_all(session([]), format).endswith("\n")


def test_rows_against_which_one_rule_speaks_share_its_footnote(session, make):
    """A note for each of thirty rows would hide which rules there are."""
    loads = [(f"cpu-contention: others took {n} % of the CPU",) for n in (50, 40, 30)]
    rows = [
        make.measured(10.0, batch_size=1 + n, reasons=reasons) for n, reasons in enumerate(loads)
    ]
    table = throughput_table(session(rows))
    assert table.footnotes == (
        "not valid, cpu-contention: others took 50 % of the CPU; 2 more like it",
    )
    assert all(cell.endswith("! [1]") for cell in texts(table)[0][2:])
