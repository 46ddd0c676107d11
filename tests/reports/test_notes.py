"""What stands above the first table of a report, and what above the others."""

from __future__ import annotations

import pytest

from benchrack.reports.layout import Table
from benchrack.reports.notes import (
    ALL_ONE_START,
    INVALID,
    PUBLISHED,
    SEVERAL_STARTS,
    SOME_ONE_START,
    TILDE,
    said_once,
)
from benchrack.reports.records import load
from benchrack.reports.tables import render_all

HERE = "Measured on PowerEdge R740, 4× Tesla P4, cpu."
INSIDE = "H2D and D2H transfers are inside the time."
OUTSIDE = "H2D and D2H transfers are not inside the time."


def split(*notes):
    """What stands above all tables with these notes, and what above each."""
    tables = [Table(title="", headers=(), keys=0, rows=(), notes=tuple(one)) for one in notes]
    common, own = said_once(tables)
    return common, [list(table.notes) for table in own]


def test_what_all_tables_say_is_said_once():
    assert split(["Rates.", HERE], ["Latency.", HERE]) == ([HERE], [["Rates."], ["Latency."]])


def test_what_differs_between_tables_stays_with_each():
    assert split([HERE, OUTSIDE], [HERE, INSIDE], [HERE]) == ([HERE], [[OUTSIDE], [INSIDE], []])


def test_what_only_some_tables_say_stays_with_them():
    """Others may be of other machines: a column of theirs says so."""
    assert split([], [HERE], [HERE]) == ([], [[], [HERE], [HERE]])


@pytest.mark.parametrize("sign", [ALL_ONE_START, SEVERAL_STARTS, TILDE, INVALID, PUBLISHED])
def test_a_sign_is_explained_once_even_if_one_table_alone_has_it(sign):
    assert split(["Rates."], ["Latency.", sign]) == ([sign], [["Rates."], ["Latency."]])


def test_signs_are_explained_after_what_is_common_and_in_one_order():
    common, _ = split([INVALID, HERE], [HERE, TILDE], [ALL_ONE_START, HERE])
    assert common == [HERE, ALL_ONE_START, TILDE, INVALID]


@pytest.mark.parametrize("other", [SEVERAL_STARTS, SOME_ONE_START])
def test_one_start_each_is_not_said_of_a_report_in_which_others_have_several(other):
    common, own = split([ALL_ONE_START], [other])
    assert common == [SOME_ONE_START, *([other] if other == SEVERAL_STARTS else [])]
    assert own == [[], []]


def test_one_table_keeps_its_notes():
    assert split(["Rates.", HERE, INVALID]) == ([], [["Rates.", HERE, INVALID]])
    assert split() == ([], [])


def test_counts_of_cases_stay_with_their_table(write_json, make):
    """They would be wrong for the report, even where they are the same in all its tables."""
    cases = [make.measured(10.0), make.measured(p50=8.0)]
    paths = [
        write_json(f"{run}.json", cases, run=run, started=f"2026-12-0{day}T00:00:00Z")
        for day, run in enumerate(("old", "new"), 1)
    ]
    text = render_all(load(paths), "terminal")
    assert text.count("1 of 1 cases were measured in more than one run") == 2
    assert text.index("1 of 1 cases") > text.index("Throughput")


@pytest.fixture
def two_tables(session, make):
    noisy = make.measured(10.0, transfer="exclude", reasons=("noisy: by 9 %",))
    return session([noisy, make.measured(p50=8.0, transfer="include")])


def test_a_report_in_the_terminal_begins_with_what_is_common(two_tables):
    head, first, *_ = render_all(two_tables, "terminal").split("\n\n")
    assert head.splitlines() == [HERE, ALL_ONE_START, INVALID]
    assert first.splitlines()[0] == "Throughput, images/s"


def test_a_report_in_markdown_does_too(two_tables):
    text = render_all(two_tables, "markdown")
    head, first, *_ = text.split("\n\n")
    assert head == f"{HERE} {ALL_ONE_START} {INVALID}"
    assert first == "### Throughput, images/s"
    assert all(text.count(note) == 1 for note in (HERE, ALL_ONE_START, INVALID))


@pytest.mark.parametrize("format", ["terminal", "markdown"])
def test_a_report_of_one_table_begins_with_its_title(session, make, format):
    text = render_all(session([make.measured(10.0)]), format)
    assert text.removeprefix("### ").startswith("Throughput, images/s\n")
    assert text.count(HERE) == 1
