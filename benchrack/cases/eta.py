"""How long a sweep still takes, weighted by what its cases cost and not by their number.

A case costs its preparation and its timing. Both are learnt from the cases that are done:

* Preparation is that of the same model and backend the last time (later ones find exports and
  calibrations in the cache), else the mean of the backend, else of all.
* Timing follows from the seconds of a batch and the settings, as the scenario's `cost` has it. How
  much less cases take (they stop early), or more (they check outputs, they
  measure energy), is a factor: the median of those done in the scenario, of two the lower, since
  the first case had to start the worker process too.
* The seconds of a batch are its size × the seconds of an image: of the same model and backend, at
  the nearest batch size; else of the same model, × the ratio of the two backends (so of their
  precisions) on other models, where known; else the mean of the backend's other models, else of
  all, × the ratio of the models' multiply-accumulates where those are known beforehand.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from benchrack.errors import UnsupportedError
from benchrack.statistics.order_statistics import median_interval
from benchrack.timing.rounds import Clock
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.results import Measurement
from benchrack.vocabulary.scenarios import Scenario
from benchrack.vocabulary.settings import Settings


@dataclass(slots=True)
class Eta:
    """Fed with what each case took; `images(case)` is the number of images of its data set, and
    `operations(model)` are the multiply-accumulates of an image, where they are known."""

    settings: Settings
    scenarios: Mapping[str, Scenario]
    images: Callable[[Case], int]
    operations: Callable[[str], int | None] = lambda model: None
    _prepared: dict[tuple[str, str], float] = field(default_factory=dict)
    _image_s: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    _timed: dict[Case, float] = field(default_factory=dict)
    _factors: dict[str, list[float]] = field(default_factory=dict)
    _absent: set[tuple[str, int]] = field(default_factory=set)

    def timed(
        self, case: Case, measure: Callable[[], Measurement], clock: Clock = time.monotonic
    ) -> Measurement:
        """Measure a case, and learn from what it took. Raises what `measure` raises."""
        started = clock()
        try:
            found = measure()
        except UnsupportedError:
            self.unsupported(case)
            raise
        batch_s = median_interval(found.seconds_per_batch).value
        prepare_s = found.preparation.prepare_s
        self.done(case, clock() - started, prepare_s=prepare_s, batch_s=batch_s)
        return found

    def done(self, case: Case, seconds: float, *, prepare_s: float, batch_s: float) -> None:
        """A case took so many seconds in all, of which `prepare_s` before its session was ready."""
        prepare_s, image_s = min(prepare_s, seconds), batch_s / case.batch_size
        pair = case.model, case.backend
        self._prepared[pair] = prepare_s
        self._image_s.setdefault(pair, {})[case.batch_size] = image_s
        self._timed[case] = seconds - prepare_s
        if (expected := self._expected_s(case, image_s)) > 0:
            self._factors.setdefault(case.scenario, []).append(self._timed[case] / expected)
        self._absent.discard((case.backend, case.device_count))

    def unsupported(self, case: Case) -> None:
        """A case can't run here: others of its backend, on as many devices, cost nothing."""
        self._absent.add((case.backend, case.device_count))

    def left_s(self, cases: Iterable[Case]) -> float | None:
        """What these cases will take, in seconds; None until a case is done."""
        if not self._timed:
            return None
        return math.fsum(self._cost_s(case) for case in cases)

    def countdown(
        self, running: Case, waiting: Collection[Case], clock: Clock = time.monotonic
    ) -> Callable[[], float | None]:
        """A function that tells what is left while a case runs, from now on.

        It only subtracts: nothing is computed while something is measured.
        """
        started, own_s, waiting_s = clock(), self.left_s([running]), self.left_s(waiting)

        def left_s() -> float | None:
            if own_s is None or waiting_s is None:
                return None
            return waiting_s + max(0.0, own_s - (clock() - started))

        return left_s

    def _cost_s(self, case: Case) -> float:
        if (case.backend, case.device_count) in self._absent:
            return 0.0
        return self._preparation_s(case) + self._timing_s(case)

    def _preparation_s(self, case: Case) -> float:
        known = self._prepared
        if (case.model, case.backend) in known:
            return known[case.model, case.backend]
        alike = [seconds for (_, backend), seconds in known.items() if backend == case.backend]
        return _mean(alike or known.values())

    def _timing_s(self, case: Case) -> float:
        if case in self._timed:  # another start of it
            return self._timed[case]
        factors = sorted(self._factors.get(case.scenario, [1.0]))
        factor = factors[(len(factors) - 1) // 2]
        return factor * self._expected_s(case, self._seconds_an_image(case))

    def _expected_s(self, case: Case, image_s: float) -> float:
        """What the settings make of a case of this speed, if nothing stops it early."""
        cost = self.scenarios[case.scenario].cost
        return cost(case, self.settings, image_s * case.batch_size, self.images(case))

    def _seconds_an_image(self, case: Case) -> float:
        known = self._image_s
        if own := known.get((case.model, case.backend)):
            nearest = min(own, key=lambda size: abs(math.log(size / case.batch_size)))
            return own[nearest]
        of_model = [
            _mean(rates.values()) * self._ratio(case.backend, backend)
            for (model, backend), rates in known.items()
            if model == case.model
        ]
        others = [
            (backend, _mean(rates.values()) * self._larger(case.model, model))
            for (model, backend), rates in known.items()
        ]
        of_backend = [seconds for backend, seconds in others if backend == case.backend]
        return _mean(of_model or of_backend or [seconds for _, seconds in others])

    def _larger(self, model: str, other: str) -> float:
        """How many times another model's operations a model has; 1.0 where that is not known."""
        own, others = self.operations(model), self.operations(other)
        return own / others if own and others else 1.0

    def _ratio(self, one: str, other: str) -> float:
        """The seconds of one backend ÷ those of another, on the models that both have run."""
        means = {pair: _mean(rates.values()) for pair, rates in self._image_s.items()}
        ratios = [
            mean / means[model, other]
            for (model, backend), mean in means.items()
            if backend == one and means.get((model, other))
        ]
        return _mean(ratios or [1.0])


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.fsum(found) / len(found)


def in_words(seconds: float) -> str:
    """A rough duration: `40 s`, `12 min`, `2.5 h`."""
    if seconds <= 50:
        return f"{max(1, math.ceil(seconds / 10)) * 10} s"
    if seconds < 90 * 60:
        return f"{max(1, round(seconds / 60))} min"
    return f"{round(seconds / 1800) / 2:g} h"
