"""Throughput versus devices and versus batch, as in the figures of the P40-vs-P4 study."""

from __future__ import annotations

import dataclasses

import pytest
from fakes import measurements as made
from fakes.tables import column, texts

from benchrack.reports.power import power_table
from benchrack.reports.records import load
from benchrack.reports.scaling import (
    batch_power_table,
    batch_scaling_table,
    device_scaling_table,
)
from benchrack.vocabulary.results import Footprint, Power, World

P4 = "Tesla P4"


@pytest.fixture
def on_cards(make):
    """A rate on so many P4, perhaps with images/s per watt (absolute, above idle)."""

    def build(rate, count=1, batch_size=128, per_watt=(None, None), placement=(), **more):
        measured = make.measured(
            rate, device_count=count, batch_size=batch_size, device=P4, engine="TensorRT", **more
        )
        absolute, above = per_watt
        power = Power(
            meters=("nvml",),
            images_per_s_per_w=absolute,
            images_per_s_per_w_above_idle=above,
        )
        world = World(ranks=count, skew=0.012, placement=placement) if count > 1 else None
        return dataclasses.replace(measured, power=power if absolute else None, world=world)

    return build


# Devices --------------------------------------------------------------------------------------


def test_speed_up_is_relative_to_one_device_and_efficiency_to_all(session, on_cards):
    table = device_scaling_table(
        session([on_cards(1000.0), on_cards(1990.0, 2), on_cards(3900.0, 4)])
    )
    assert table.headers == (
        *("model", "backend", "batch", "devices", "images/s", "speed-up", "efficiency %"),
        "skew %",
    )
    assert [c.value for c in column(table, "devices")] == [1, 2, 4]
    assert [c.value for c in column(table, "speed-up")] == [1.0, 1.99, 3.9]
    assert [c.text for c in column(table, "efficiency %")] == ["100.0", "99.5", "97.5"]
    assert [c.text for c in column(table, "skew %")] == ["", "1.2", "1.2"]


def test_the_studys_first_figure_comes_out_of_its_own_numbers(session, on_cards):
    """P4, AlexNet INT8 at batch 128: 0.52, 1.05, 1.56, 2.09 of a P40; per watt 1.42 to 1.52."""
    rates, per_watt = (0.52, 1.05, 1.56, 2.09), (1.42, 1.59, 1.55, 1.52)
    table = device_scaling_table(
        session(
            [
                on_cards(10_000 * rate, n, per_watt=(50.0, 100 * above))
                for n, (rate, above) in enumerate(zip(rates, per_watt, strict=True), 1)
            ]
        )
    )
    assert [c.text for c in column(table, "speed-up")] == ["1.00", "2.02", "3.00", "4.02"]
    assert [c.text for c in column(table, "relative")] == ["1.00", "1.12", "1.09", "1.07"]
    assert [c.text for c in column(table, "above idle")] == ["142.0", "159.0", "155.0", "152.0"]


def test_a_ratio_has_the_uncertainty_of_both(session, on_cards):
    table = device_scaling_table(
        session([on_cards(100.0, half=0.01), on_cards(200.0, 2, half=0.01)])
    )
    one, two = column(table, "speed-up")
    assert one.spread == ""
    assert two.spread == "±2.0 %"


def test_a_rate_without_an_interval_still_has_a_speed_up(session, on_cards):
    bare = made.but(on_cards(200.0, 2), images_per_s=200.0)
    table = device_scaling_table(session([on_cards(100.0), bare]))
    assert column(table, "speed-up")[1].text == "2.00"
    assert column(table, "speed-up")[1].spread == ""


def test_one_device_count_needs_no_table(session, on_cards, make):
    outcome = make.missed("unsupported", "one card", device_count=2, batch_size=128)
    assert device_scaling_table(session([on_cards(100.0)], [outcome])) is None
    assert device_scaling_table(session([on_cards(100.0), on_cards(90.0, batch_size=1)])) is None


def test_counts_without_one_device_have_no_speed_up_and_say_why(session, on_cards):
    table = device_scaling_table(session([on_cards(200.0, 2), on_cards(400.0, 4)]))
    assert "speed-up" not in table.headers
    assert table.footnotes == ("one device was not measured in the same run: there is no speed-up",)


def test_the_baseline_is_of_the_same_run(write_json, on_cards):
    """A newer run of one device alone moves no speed-up of the older run."""
    first = write_json("a.json", [on_cards(100.0), on_cards(180.0, 2)], run="a")
    second = write_json("b.json", [on_cards(90.0)], run="b", started="2026-12-01T10:00:00Z")
    table = device_scaling_table(load([first, second]))
    assert [c.text for c in column(table, "images/s")] == ["90.00", "180.0"]
    assert column(table, "speed-up")[1].text == "1.80"


def test_the_baseline_that_a_later_run_measured_again_is_the_one(write_json, on_cards):
    """Of the first run one device was not valid, and two were not measured again."""
    noisy = on_cards(50.0, reasons=("noisy: ±9 %",))
    first = write_json("a.json", [noisy, on_cards(180.0, 2)], run="a")
    second = write_json(
        "b.json", [on_cards(100.0)], run="b", started="2026-12-01T10:00:00Z", resumes=["a"]
    )
    speed_up = column(device_scaling_table(load([first, second])), "speed-up")
    assert [(cell.text, cell.invalid) for cell in speed_up] == [("1.00", False), ("1.80", False)]


def test_the_baseline_of_a_run_that_resumes_one_that_resumes_another(make, write_json, on_cards):
    """Four devices were measured last, one of them first; other runs of the machine are others."""
    there = make.missed("resumed", "has a valid record in a.json", batch_size=128)
    four = on_cards(390.0, 4)
    days = [f"2026-12-0{n}T10:00:00Z" for n in range(1, 5)]
    files = [
        write_json("a.json", [on_cards(100.0)], run="a", started=days[0]),
        write_json("b.json", [], [there], run="b", started=days[1], resumes=["a"]),
        write_json("c.json", [four], run="c", started=days[2], resumes=["b"]),
        write_json("d.json", [on_cards(10.0)], run="d", started=days[3]),
    ]
    assert column(device_scaling_table(load(files)), "speed-up")[1].text == "3.90"


def test_the_baseline_has_the_same_version_of_its_engine(write_json, on_cards):
    """The framework was updated between a run and the one that resumes it."""
    newer = on_cards(150.0)
    newer = made.but(newer, engine={"version": "2"})
    first = write_json("a.json", [on_cards(100.0), on_cards(180.0, 2)], run="a")
    second = write_json("b.json", [newer], run="b", started="2026-12-01T10:00:00Z", resumes=["a"])
    table = device_scaling_table(load([first, second]))
    assert column(table, "speed-up")[1].text == "1.80"


def test_a_start_that_was_measured_again_is_no_baseline(write_json, on_cards):
    def start(rate, n, **more):
        return dataclasses.replace(on_cards(rate, **more), start=n)

    bad = start(300.0, 2, reasons=("throttled: hot",))
    first = write_json("a.json", [start(100.0, 1), bad, on_cards(180.0, 2)], run="a")
    second = write_json(
        "b.json", [start(100.0, 2)], run="b", started="2026-12-01T10:00:00Z", resumes=["a"]
    )
    two = column(device_scaling_table(load([first, second])), "speed-up")[1]
    assert (two.text, two.invalid) == ("1.80", False)


def test_two_machines_are_not_one_with_as_many_devices(write_json, on_cards):
    """Four devices of one machine, and two of each of two."""
    apart = on_cards(360.0, 4)
    apart = dataclasses.replace(apart, world=dataclasses.replace(apart.world, nodes=2))
    first = write_json("a.json", [on_cards(100.0), on_cards(390.0, 4)], run="a")
    second = write_json(
        *("b.json", [on_cards(100.0), apart]), run="b", started="2026-12-01T10:00:00Z"
    )
    table = device_scaling_table(load([first, second]))
    assert [c.value for c in column(table, "machines")] == [1, 1, 2]
    assert [c.value for c in column(table, "images/s")] == [100.0, 390.0, 360.0]
    assert [c.text for c in column(table, "speed-up")] == ["1.00", "3.90", "3.60"]


def test_machines_and_engines_are_no_baselines_of_each_other(write_json, make, on_cards):
    first = write_json("a.json", [on_cards(100.0)], run="a")
    second = write_json("b.json", [on_cards(180.0, 2)], run="b", machine=make.LAPTOP)
    assert device_scaling_table(load([first, second])) is None


def test_a_speed_up_over_what_is_not_valid_is_marked(session, on_cards):
    table = device_scaling_table(
        session([on_cards(100.0, reasons=("noisy: ±9 %",)), on_cards(180.0, 2)])
    )
    for header in ("speed-up", "efficiency %"):
        one, two = column(table, header)
        assert (one.invalid, two.invalid) == (False, True)
    assert "relative to one device, whose figure is not valid" in table.footnotes


def test_a_speed_up_of_what_is_not_valid_is_marked_too(session, on_cards):
    table = device_scaling_table(
        session([on_cards(100.0), on_cards(180.0, 2, reasons=("throttled: hot",))])
    )
    for header in ("images/s", "speed-up", "efficiency %"):
        assert [cell.invalid for cell in column(table, header)] == [False, True]
    assert table.footnotes == ("not valid, throttled: hot",)


def test_where_the_devices_were_is_a_footnote(session, on_cards):
    places = ("cuda:0 Tesla P4, slot 1, NUMA node 0", "cuda:1 Tesla P4, slot 4, NUMA node 1")
    one = dataclasses.replace(on_cards(100.0), placement=places[0])
    table = device_scaling_table(session([one, on_cards(190.0, 2, placement=places)]))
    assert table.footnotes == (
        f"1 device: {places[0]}",
        f"2 devices: {places[0]}; {places[1]}",
    )


def test_parts_of_a_cpu_are_measured_by_their_threads(session, make):
    """Two halves of a CPU can't be twice as fast as the whole."""

    def on_cpu(rate, count, threads):
        measured = make.measured(rate, device_count=count, batch_size=8)
        engine = dataclasses.replace(measured.engine, threads=threads)
        return dataclasses.replace(measured, engine=engine)

    table = device_scaling_table(session([on_cpu(100.0, 1, 2), on_cpu(96.0, 2, 1)]))
    assert [c.text for c in column(table, "efficiency %")] == ["100.0", "96.0"]
    assert any(note.startswith("CPU devices share its cores") for note in table.notes)
    replicas = device_scaling_table(session([on_cpu(50.0, 1, 1), on_cpu(95.0, 2, 1)]))
    assert [c.text for c in column(replicas, "efficiency %")] == ["100.0", "95.0"]


def test_each_batch_scales_by_itself(session, on_cards):
    table = device_scaling_table(
        session(
            [
                *(on_cards(rate, 1, batch_size) for batch_size, rate in ((1, 10.0), (128, 100.0))),
                *(on_cards(rate, 2, batch_size) for batch_size, rate in ((1, 15.0), (128, 199.0))),
            ]
        )
    )
    assert [[row[2].value, row[3].value] for row in table.rows] == [
        [1, 1],
        [1, 2],
        [128, 1],
        [128, 2],
    ]
    assert [c.text for c in column(table, "speed-up")] == ["1.00", "1.50", "1.00", "1.99"]


def test_starts_are_pooled_before_they_are_divided(session, on_cards):
    def starts(rates, count):
        return [
            dataclasses.replace(on_cards(rate, count), start=n) for n, rate in enumerate(rates, 1)
        ]

    table = device_scaling_table(
        session([*starts((99.0, 100.0, 180.0), 1), *starts((150.0, 190.0, 191.0), 2)])
    )
    assert column(table, "speed-up")[1].text == "1.90"


# Batches --------------------------------------------------------------------------------------

BATCHES = (1, 32, 64, 128, 256)


def test_throughput_relative_to_batch_1(session, on_cards):
    """The P40's INT8 AlexNet: 791 images/s at batch 1, 16292 at 128."""
    rates = (791.0, 11464.0, 14438.0, 16292.0, 17101.0)
    results = session(
        [on_cards(r, batch_size=b, half=0.001) for b, r in zip(BATCHES, rates, strict=True)]
    )
    table = batch_scaling_table(results)
    assert table.headers == ("model", "backend", *(f"batch {b}" for b in BATCHES))
    assert [cell.text for cell in table.rows[0][2:]] == ["1.00", "14.49", "18.25", "20.60", "21.62"]
    assert batch_power_table(results) is None


def test_images_per_watt_relative_to_batch_1(session, on_cards):
    above = (1.0, 8.1, 9.2, 9.9, 10.0)
    table = batch_power_table(
        session(
            [
                on_cards(100.0, batch_size=b, per_watt=(20.0, 7 * a))
                for b, a in zip(BATCHES, above, strict=True)
            ]
        )
    )
    assert [cell.text for cell in table.rows[0][2:]] == ["1.00", "8.10", "9.20", "9.90", "10.00"]


def test_few_batches_need_no_table(session, on_cards):
    assert batch_scaling_table(session([on_cards(9.0, batch_size=b) for b in BATCHES[:3]])) is None


def test_without_batch_1_there_is_nothing_to_be_relative_to(session, on_cards):
    assert batch_scaling_table(session([on_cards(9.0, batch_size=b) for b in BATCHES[1:]])) is None


def test_batches_over_a_batch_1_that_is_not_valid_are_marked(session, on_cards):
    first = on_cards(10.0, batch_size=1, reasons=("noisy: ±9 %",))
    table = batch_scaling_table(session([first, *(on_cards(99.0, 1, b) for b in BATCHES[1:])]))
    assert all(cell.invalid for cell in table.rows[0][2:])
    assert "relative to batch 1, whose figure is not valid" in table.footnotes


def test_batches_are_over_the_batch_1_that_a_later_run_measured_again(write_json, on_cards):
    noisy = on_cards(5.0, batch_size=1, reasons=("noisy: ±9 %",))
    first = write_json("a.json", [noisy, *(on_cards(100.0, 1, b) for b in BATCHES[1:])], run="a")
    second = write_json(
        *("b.json", [on_cards(10.0, batch_size=1)]),
        run="b",
        started="2026-12-01T10:00:00Z",
        resumes=["a"],
    )
    row = batch_scaling_table(load([first, second])).rows[0]
    assert [(cell.text, cell.invalid) for cell in row[2:]] == [
        ("1.00", False),
        *[("10.00", False)] * (len(BATCHES) - 1),
    ]


def test_watts_over_a_batch_1_that_is_not_valid_are_marked(session, on_cards):
    per_watt = (20.0, 10.0)
    first = on_cards(10.0, batch_size=1, per_watt=per_watt, reasons=("noisy: ±9 %",))
    others = (on_cards(99.0, 1, b, per_watt=per_watt) for b in BATCHES[1:])
    table = batch_power_table(session([first, *others]))
    assert all(cell.invalid for cell in table.rows[0][2:])
    assert "relative to batch 1, whose figure is not valid" in table.footnotes


def test_watts_over_one_device_that_is_not_valid_are_marked(session, on_cards):
    one = on_cards(100.0, per_watt=(20.0, 10.0), reasons=("noisy: ±9 %",))
    table = device_scaling_table(session([one, on_cards(180.0, 2, per_watt=(20.0, 9.0))]))
    assert [cell.invalid for cell in column(table, "relative")] == [False, True]


def test_energy_that_is_not_valid_leaves_the_speed_up_alone(session, on_cards):
    one = on_cards(100.0, per_watt=(20.0, 10.0), reasons=("energy-uncertain: ±6 %",))
    table = device_scaling_table(session([one, on_cards(180.0, 2, per_watt=(20.0, 9.0))]))
    invalid = {
        header: [cell.invalid for cell in column(table, header)]
        for header in ("images/s", "speed-up", "images/s/W", "above idle", "relative")
    }
    assert invalid == {
        "images/s": [False, False],
        "speed-up": [False, False],
        "images/s/W": [True, False],
        "above idle": [True, False],
        "relative": [True, True],
    }
    assert "per watt relative to one device, whose energy is not valid" in table.footnotes


def test_batches_whose_energy_is_not_valid_are_marked_per_watt_alone(session, on_cards):
    reasons = ("energy-uncertain: ±6 %",)
    results = session(
        [
            on_cards(9.0 * b, 1, b, per_watt=(20.0, 10.0), reasons=reasons if b == 64 else ())
            for b in BATCHES
        ]
    )
    (rates,), (watts,) = batch_scaling_table(results).rows, batch_power_table(results).rows
    assert not any(cell.mark for cell in rates)
    assert [
        h for h, cell in zip(batch_power_table(results).headers, watts, strict=True) if cell.invalid
    ] == ["batch 64"]


def test_device_counts_are_rows_of_their_own(session, on_cards):
    table = batch_scaling_table(
        session([on_cards(10.0 * b**0.5 * n, n, b) for n in (1, 2) for b in BATCHES])
    )
    assert [row[2].value for row in table.rows] == [1, 2]


# Peak, power and memory -----------------------------------------------------------------------


def test_rows_gain_what_is_known_of_peak_power_and_memory(session, on_cards):
    measured = dataclasses.replace(
        on_cards(100.0, per_watt=(1.5, 2.0)),
        share_of_peak=0.314,
        footprint=Footprint(peak_gib=3.25, batches_gib=1.0),
    )
    table = power_table(session([measured]))
    assert table.headers == (
        *("model", "backend", "batch", "images/s", "% of peak", "images/s/W", "above idle"),
        "memory GiB",
    )
    assert texts(table)[0][-4:] == ["31.40", "1.500", "2.000", "3.250"]


def test_what_the_meters_saw_of_memory_comes_first(session, on_cards):
    measured = on_cards(100.0, per_watt=(1.5, 2.0))
    power = dataclasses.replace(measured.power, memory_used_peak_gib=5.5)
    footprint = Footprint(peak_gib=3.25, batches_gib=1.0)
    seen = dataclasses.replace(measured, power=power, footprint=footprint)
    assert column(power_table(session([seen])), "memory GiB")[0].value == 5.5


def test_memory_alone_has_a_row_for_all_batches(session, make):
    """As of a CPU whose RAPL may not be read: each row that has a footprint."""

    def with_memory(peak_gib, **more):
        footprint = Footprint(peak_gib=peak_gib, batches_gib=1.0)
        return dataclasses.replace(make.measured(9.0, **more), footprint=footprint)

    noisy = with_memory(3.5, batch_size=8, reasons=("noisy: by 9 %",))
    results = session([with_memory(3.25), noisy, make.measured(7.0, model="vgg16")])
    table = power_table(results)
    assert table.title == "Memory, GiB"
    assert table.headers == ("model", "backend", "batch 1", "batch 8")
    # What makes a rate doubtful does not make the memory so.
    assert texts(table) == [["resnet50", "pytorch-fp32", "3.250", "3.500"]]
    assert not table.footnotes
    assert not [note for note in table.notes if note.startswith(("!", "H2D"))]
    assert power_table(session([make.measured(9.0)])) is None


def test_meters_that_failed_are_a_footnote_of_the_memory_too(session, make):
    power = Power(meters=(), meter_faults=("nvml: the card was lost",))
    footprint = Footprint(peak_gib=3.25, batches_gib=1.0)
    measured = dataclasses.replace(make.measured(9.0), power=power, footprint=footprint)
    table = power_table(session([measured]))
    assert texts(table) == [["resnet50", "pytorch-fp32", "3.250 [1]"]]
    assert table.footnotes == ("nvml: the card was lost",)
