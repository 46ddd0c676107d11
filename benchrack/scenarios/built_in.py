"""The scenarios that come with Benchrack, by name, for those that ask no plugins."""

from __future__ import annotations

from collections.abc import Mapping

from benchrack.scenarios.accuracy import ACCURACY
from benchrack.scenarios.latency import LATENCY
from benchrack.scenarios.throughput import THROUGHPUT
from benchrack.vocabulary.scenarios import Scenario

SCENARIOS: Mapping[str, Scenario] = {s.name: s for s in (THROUGHPUT, LATENCY, ACCURACY)}
