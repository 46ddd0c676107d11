"""Figures as text."""

from __future__ import annotations

import math

import pytest

from benchrack.reports.numbers import figure, half_width, percent, percent_bounds
from benchrack.statistics.interval import Interval


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (math.nan, ""),
        (math.inf, ""),
        (0, "0"),
        (123.44, "123.4"),
        (12.345678, "12.35"),
        (1.0, "1.000"),
        (0.0123456, "0.01235"),
        (1234.5, "1234"),
        (64691.4, "64691"),
        (999.96, "1000"),
        (99.996, "100.0"),
        (-12.3456, "-12.35"),
    ],
)
def test_figures_have_four_digits(value, text):
    assert figure(value) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (99.2, 100.8, "±0.8 %"),
        (99.0, 100.5, "±1.0 %"),  # the wider half
        (99.97, 100.03, "±0.03 %"),
        (60.0, 140.0, "±40 %"),
        (100.0, 100.0, "±0.00 %"),
        (None, None, ""),
        (90.0, None, ""),
        (math.nan, 101.0, ""),
    ],
)
def test_half_widths_are_relative(low, high, text):
    assert half_width(Interval(value=100.0, low=low, high=high)) == text


def test_a_spread_that_is_no_interval_looks_different():
    assert half_width(Interval(value=100.0, low=95.0, high=104.0), "~") == "~5.0 %"


def test_zero_has_no_relative_interval():
    assert half_width(Interval(value=0.0, low=-1.0, high=1.0)) == ""


def test_shares_are_in_percent():
    assert percent(0.9) == "90.0"
    assert percent(None) == percent(math.nan) == ""
    assert percent_bounds(Interval(value=0.9, low=0.699, high=0.972)) == "[69.9, 97.2]"
    assert percent_bounds(Interval(value=0.9)) == ""
