"""Hands samples that were measured already to pytest-benchmark, through its public interface.

Measuring inside the `benchmark` fixture would lose the whole JSON to a skip or a Ctrl-C there. So
the samples come first, and `pedantic` replays them on a timer that reads them back, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

Replay = Callable[[Sequence[float], dict[str, Any]], Any]


class RecordedTimer:
    """A timer whose reads, two a round, are apart by the recorded seconds."""

    __name__ = "benchrack"  # pytest-benchmark writes a timer's name into its JSON

    def __init__(self) -> None:
        self._reads: list[float] = []

    def load(self, samples: Sequence[float]) -> None:
        # Each round starts at zero again, so that its difference is the sample to the last bit.
        self._reads = [read for sample in samples for read in (0.0, sample)]
        self._reads.reverse()

    def __call__(self) -> float:
        return self._reads.pop()


@pytest.fixture
def recorded_timer(request: pytest.FixtureRequest) -> RecordedTimer:
    timer = RecordedTimer()
    group = getattr(request.function, "__name__", "test").removeprefix("test_")
    request.node.add_marker(pytest.mark.benchmark(timer=timer, group=group), append=False)
    return timer


@pytest.fixture
def replay(recorded_timer: RecordedTimer, benchmark: Any) -> Iterator[Replay]:
    """`replay(seconds_per_batch, extra_info)` gives pytest-benchmark's statistics of them, or None
    where benchmarks are disabled."""

    def replay_samples(samples: Sequence[float], extra_info: dict[str, Any]) -> Any:
        recorded_timer.load(samples)
        benchmark.extra_info.update(extra_info)
        benchmark.pedantic(lambda: None, rounds=len(samples), iterations=1)
        return benchmark.stats

    yield replay_samples
    benchmark.skipped = True  # a case that failed or was interrupted did not forget to measure
