"""The scenarios that Benchrack brings, by name."""

from __future__ import annotations

from benchrack.registry.registry import built_in_scenarios

SCENARIOS = built_in_scenarios()
THROUGHPUT, LATENCY, ACCURACY = SCENARIOS.values()
