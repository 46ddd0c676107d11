"""Starts of a case: what is said of one, the modes of several, and runs that resume one another."""

from __future__ import annotations

import dataclasses

import pytest
from fakes import measurements as made

from benchrack.reports.accuracy import accuracy_table
from benchrack.reports.latency import latency_table
from benchrack.reports.pooling import modes_of_starts
from benchrack.reports.records import load
from benchrack.reports.scaling import device_scaling_table
from benchrack.reports.tables import render_all
from benchrack.reports.throughput import throughput_table
from benchrack.statistics.interval import Interval
from benchrack.vocabulary.results import World

ONE_START = "± is of one process; fresh ones may differ by more (--set starts=6)."


@pytest.fixture
def start(make):
    """`start(number, rate)` is a start of a case, counted from one."""

    def measured(number, rate, **more):
        return dataclasses.replace(make.measured(rate, **more), start=number)

    return measured


def rates(table):
    return [str(cell) for cell in table.rows[0]][2:]


# Modes ----------------------------------------------------------------------------------------

BIMODAL = [412.3, 376.1, 411.8, 377.4, 377.0, 413.0]


def test_starts_in_two_modes_have_a_footnote(session, make):
    table = throughput_table(session([make.measured(rate) for rate in BIMODAL]))
    assert table.footnotes == ("two modes: 3 starts near 412, 3 near 377 images/s",)
    assert table.rows[0][-1].notes == (1,)
    assert not table.rows[0][-1].invalid


def test_modes_of_a_latency_are_those_of_its_median(session, make):
    p50s = [38.4, 38.7, 42.5, 43.0, 38.9, 42.8, 39.1]
    table = latency_table(session([make.measured(p50=p50) for p50 in p50s]))
    assert table.footnotes == ("two modes: 3 starts near 42.8, 4 near 38.8 ms (p50)",)


def test_each_case_has_its_own_modes(session, make):
    doubled = [make.measured(2 * rate, batch_size=8) for rate in BIMODAL]
    table = throughput_table(session([*(make.measured(rate) for rate in BIMODAL), *doubled]))
    assert [cell.notes for cell in table.rows[0][-2:]] == [(1,), (2,)]
    assert table.footnotes[1].startswith("two modes: 3 starts near 825")


@pytest.mark.parametrize(
    "values",
    [
        [],
        [412.0],
        [412.0, 377.0],
        [400.0, 401.0, 402.0, 403.0, 404.0, 405.0],
        [412.0, 411.0, 413.0, 412.0, 377.0],
        [100.0, 104.0, 108.2, 112.6],
        [0.0, 0.0, 412.0, 411.0],
        [-1.0, -1.0, 412.0, 411.0],
    ],
)
def test_a_start_that_is_alone_is_no_mode(values):
    assert modes_of_starts(values, "images/s") == []


def test_a_third_group_is_counted_though_one_start_is_alone_in_it():
    values = [100.0, 101.0, 120.0, 121.0, 150.0]
    assert modes_of_starts(values, "images/s") == [
        "three modes: 1 start near 150, 2 near 120, 2 near 100 images/s"
    ]


# One start ------------------------------------------------------------------------------------


def test_rows_of_one_start_say_what_their_interval_leaves_out(session, make):
    one = session([make.measured(10.0), make.measured(20.0, batch_size=8)])
    assert f"One start each: {ONE_START}" in throughput_table(one).notes
    assert f"One start each: {ONE_START}" in latency_table(session([make.measured(p50=8.0)])).notes


def test_beside_rows_of_several_starts_it_is_said_of_the_others(session, make):
    mixed = [make.measured(10.0), *(make.measured(rate, batch_size=8) for rate in (20.0, 20.5))]
    assert f"Where there is one start: {ONE_START}" in throughput_table(session(mixed)).notes


def test_where_every_case_has_several_starts_it_is_not_said(session, make):
    notes = throughput_table(session([make.measured(rate) for rate in (10.0, 11.0)])).notes
    assert not any("one process" in note for note in notes)


# Starts that are to be published --------------------------------------------------------------


@pytest.fixture
def to_publish(write_json):
    """`to_publish(measurements)` are the results of a run with publish=true."""
    settings = {"publish": True, "starts": 6}
    return lambda found, *more: load([write_json("a.json", found, *more, settings=settings)])


def starts_of(make, count, **more):
    return [dataclasses.replace(make.measured(100.0, **more), start=n + 1) for n in range(count)]


def test_six_valid_starts_can_be_published(to_publish, make):
    table = throughput_table(to_publish(starts_of(make, 6)))
    assert table.footnotes == ()
    assert not table.rows[0][-1].invalid


def test_starts_whose_energy_is_not_valid_count_for_the_images(to_publish, make):
    starts = [
        dataclasses.replace(s, reasons=("energy-uncertain: ±6 %",)) for s in starts_of(make, 6)
    ]
    assert throughput_table(to_publish(starts)).footnotes == ()


@pytest.mark.parametrize("spoilt", ["one is missing", "one is not valid", "one failed"])
def test_fewer_valid_starts_are_marked_when_publishing(to_publish, make, spoilt):
    starts, failed, others = starts_of(make, 6), [], []
    if spoilt == "one is not valid":
        starts[2] = dataclasses.replace(starts[2], reasons=("noisy: by 9 %",))
        others = ["not valid, noisy: by 9 %"]
    else:
        del starts[2]
    if spoilt == "one failed":
        failed = [make.missed("failed", "it died")]
    results = to_publish(starts, failed)
    said = "not valid, too-few-starts: a published number needs 6, and 5 are valid"
    after = ["another start: failed: it died"] if failed else []
    assert list(throughput_table(results).footnotes) == [*others, said, *after]
    assert throughput_table(results).rows[0][-1].invalid
    assert said in render_all(results, "terminal")


def test_without_publishing_few_starts_are_no_reason(write_json, make):
    results = load([write_json("a.json", starts_of(make, 2), settings={"publish": False})])
    assert throughput_table(results).footnotes == ()


def test_accuracy_has_one_start_and_can_be_published(to_publish, make):
    results = to_publish([make.measured(accuracy=make.shares(), trained=True)])
    assert accuracy_table(results).footnotes == ()


def test_a_case_that_gave_nothing_is_no_few_starts(to_publish, make):
    results = to_publish([], [make.missed("unsupported", "no such card")])
    assert throughput_table(results).footnotes == ("unsupported: no such card",)


# Intervals that are none ----------------------------------------------------------------------

TILDE = "~ in place of ±"


@pytest.fixture
def correlated(start):
    """`correlated(number, rate)` is a start whose rounds were not independent in any blocks."""

    def measured(number, rate):
        return made.but(start(number, rate), steadiness={"independent": False})

    return measured


def test_the_spread_of_rounds_that_are_not_independent_looks_different(session, correlated, make):
    table = throughput_table(session([correlated(1, 10.0), make.measured(20.0, batch_size=8)]))
    assert rates(table) == ["10.00 ~0.8 %", "20.00 ±0.8 %"]
    assert any(note.startswith(TILDE) for note in table.notes)
    assert not table.rows[0][-1].invalid


def test_where_all_are_independent_nothing_is_said_of_it(session, make):
    notes = throughput_table(session([make.measured(10.0)])).notes
    assert not any(TILDE in note for note in notes)


def test_the_interval_of_six_starts_needs_none_of_each(session, correlated):
    table = throughput_table(session([correlated(n, 10.0 + n / 100) for n in range(6)]))
    assert table.rows[0][-1].spread.startswith("±")
    assert not any(TILDE in note for note in table.notes)


def test_what_is_relative_to_such_a_figure_is_marked_too(session, correlated, make):
    found = [correlated(1, 10.0), make.measured(20.0, device_count=2)]
    table = device_scaling_table(session(found))
    speed_up = table.headers.index("speed-up")
    assert table.rows[1][speed_up].spread.startswith("~")
    assert any(note.startswith(TILDE) for note in table.notes)


# Percentiles over starts ----------------------------------------------------------------------


def test_a_percentile_is_shown_only_where_every_start_has_it(session, make):
    """Without those that were too disturbed for one, the others would look too good."""

    def starts(*p99s):
        for number, p99 in enumerate(p99s, 1):
            known = p99 and Interval(value=p99, low=p99 - 1, high=p99 + 1)
            percentiles = {"p90": Interval(value=9.0), "p99": known}
            yield made.but(make.measured(p50=8.0), start=number, **percentiles)

    table = latency_table(session([*starts(20.0, 21.0, 22.0)]))
    assert table.rows[0][table.headers.index("p99 ms")].value == 21.0
    table = latency_table(session([*starts(20.0, None, 22.0)]))
    assert "p99 ms" not in table.headers
    assert table.rows[0][table.headers.index("p90 ms")].value == 9.0
    assert any("empty where a start has too few samples" in note for note in table.notes)


# What is inside the time ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transfer", "words"), [("include", "are inside"), ("exclude", "are not inside")]
)
def test_a_note_says_whether_transfers_are_inside_where_that_does_not_differ(
    session, make, transfer, words
):
    said = f"H2D and D2H transfers {words} the time."
    one = session([make.measured(10.0, transfer=transfer)])
    assert said in throughput_table(one).notes
    assert said in latency_table(session([make.measured(p50=8.0, transfer=transfer)])).notes


def test_where_it_differs_a_column_says_it(session, make):
    both = [make.measured(rate, transfer=t) for rate, t in ((9.0, "include"), (10.0, "exclude"))]
    table = throughput_table(session(both))
    assert "transfers" in table.headers
    assert not any(note.startswith("H2D and") for note in table.notes)


# Runs that resume one another -----------------------------------------------------------------

OLD = {"run": "old", "started": "2026-12-01T00:00:00Z"}
NEW = {"run": "new", "started": "2026-12-02T00:00:00Z"}


def resumed(make, **axes):
    return make.missed("resumed", "has a valid record in old.json", **axes)


def test_a_resumed_run_and_its_predecessor_are_one_sweep(write_json, make):
    noisy = make.measured(11.0, batch_size=8, reasons=("noisy: by 9 %",))
    left = make.missed("interrupted", "Ctrl-C", batch_size=32)
    old = write_json("old.json", [make.measured(10.0), noisy], [left], **OLD)
    again = [make.measured(80.0, batch_size=8), make.measured(300.0, batch_size=32)]
    new = write_json("new.json", again, [resumed(make)], resumes=["old"], **NEW)
    table = throughput_table(load([old, new]))
    assert rates(table) == ["10.00 ±0.8 %", "80.00 ±0.8 %", "300.0 ±0.8 %"]
    assert table.footnotes == ()
    assert any("1 of 3 cases" in note and "newest, new" in note for note in table.notes)


def test_alone_a_resumed_run_says_where_the_rest_is(write_json, make):
    new = write_json(
        "new.json",
        [make.measured(80.0, batch_size=8)],
        [resumed(make)],
        resumes=["old"],
        **NEW,
    )
    table = throughput_table(load([new]))
    assert rates(table) == ["resumed [1]", "80.00 ±0.8 %"]
    assert table.footnotes == ("resumed: has a valid record in old.json",)


def test_a_resumed_case_hides_no_older_figure_of_another_run(write_json, make):
    """Its newest record is in a file that is not here."""
    other = write_json(
        "other.json", [make.measured(9.0)], run="other", started="2026-11-01T00:00:00Z"
    )
    new = write_json("new.json", [], [resumed(make)], resumes=["old"], **NEW)
    table = throughput_table(load([other, new]))
    assert rates(table) == ["9.000 ±0.8 % [1]"]
    assert table.footnotes == ("later, in run new: resumed: has a valid record in old.json",)


def test_starts_of_a_run_and_of_one_that_resumes_it_are_pooled(write_json, make, start):
    """A start that was measured again counts once, with what is newer."""
    old = [start(number, 100.0 + number) for number in (1, 2, 3)]
    old[2] = dataclasses.replace(old[2], reasons=("noisy: by 9 %",))
    new = [start(number, 200.0 + number) for number in (3, 4, 5)]
    paths = [
        write_json("old.json", old, **OLD),
        write_json("new.json", new, [resumed(make)] * 2, resumes=["old"], **NEW),
    ]
    table = throughput_table(load(paths))
    assert table.headers[2] == "starts"
    assert table.rows[0][2].value == "5"
    assert table.rows[0][-1].value == 203.0
    assert not table.rows[0][-1].invalid
    assert "Starts of runs that resume one another are pooled: old, new." in table.notes
    assert not any("resumed" in note for note in table.footnotes)


def test_runs_that_do_not_resume_one_another_are_not_pooled(write_json, start):
    paths = [
        write_json("old.json", [start(1, 100.0)], **OLD),
        write_json("new.json", [start(2, 200.0)], **NEW),
    ]
    assert rates(throughput_table(load(paths))) == ["200.0 ±0.8 %"]


def test_starts_on_another_version_of_the_engine_are_not_pooled(write_json, start):
    """It was upgraded between the two runs, and those starts were to be measured again."""
    older = start(1, 100.0)
    older = made.but(older, engine={"version": "0"})
    paths = [
        write_json("old.json", [older], **OLD),
        write_json("new.json", [start(2, 200.0)], resumes=["old"], **NEW),
    ]
    table = throughput_table(load(paths))
    assert rates(table) == ["200.0 ±0.8 %"]
    assert any("1 of 1 cases" in note for note in table.notes)


def test_a_chain_of_runs_is_one_sweep(write_json, start):
    paths = [
        write_json("a.json", [start(1, 100.0)], run="a", started="2026-12-01T00:00:00Z"),
        write_json(
            "b.json", [start(2, 101.0)], run="b", started="2026-12-02T00:00:00Z", resumes=["a"]
        ),
        write_json(
            "c.json", [start(3, 102.0)], run="c", started="2026-12-03T00:00:00Z", resumes=["b"]
        ),
    ]
    table = throughput_table(load(paths))
    assert table.rows[0][2].value == "3"
    assert table.rows[0][-1].value == 101.0


# Machines -------------------------------------------------------------------------------------


def test_what_one_machine_could_not_do_is_no_miss_of_two(make, write_json):
    """Two devices on each of two machines; a later run of one machine has too few for four."""
    apart = dataclasses.replace(make.measured(360.0, device_count=4), world=World(ranks=4, nodes=2))
    first = write_json("a.json", [apart], run="a", nodes=["here", "there"])
    missed = make.missed("unsupported", "2 are used here", device_count=4)
    second = write_json("b.json", [], [missed], run="b", started="2026-12-01T10:00:00Z")
    table = throughput_table(load([first, second]))
    assert [[str(cell) for cell in row][2:] for row in table.rows] == [
        ["4", "1", "n/a [1]"],
        ["4", "2", "360.0 ±0.8 %"],
    ]
    assert table.footnotes == ("unsupported: 2 are used here",)
