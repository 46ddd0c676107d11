"""The parts of a batch on a card, beside its latency."""

from fakes import measurements as made

from benchrack.reports.latency import latency_table

PARTS = {"copy_in_ms": 2.0, "compute_ms": 5.5, "copy_out_ms": 0.25}


def on_a_card(measurement, **parts):
    return made.but(measurement, **parts or PARTS)


def test_the_three_parts_are_shown_apart(session, make):
    table = latency_table(session([on_a_card(make.measured(p50=8.0))]))
    assert table.headers[-3:] == ("H2D ms", "compute ms", "D2H ms")
    assert [cell.value for cell in table.rows[0][-3:]] == [2.0, 5.5, 0.25]
    assert any("after each part" in note for note in table.notes)


def test_parts_of_several_starts_are_their_median(session, make):
    starts = [
        on_a_card(make.measured(p50=8.0), copy_in_ms=ms, start=n)
        for n, ms in enumerate((1.0, 9.0, 2.0), 1)
    ]
    table = latency_table(session(starts))
    assert table.rows[0][-1].value == 2.0


def test_a_cpu_has_no_such_columns(session, make):
    table = latency_table(session([make.measured(p50=8.0)]))
    assert table.headers[-1] == "samples"
    assert not any("after each part" in note for note in table.notes)
