"""A scenario: a question that a case can ask, declared in one object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchrack.statistics.interval import Interval
from benchrack.vocabulary.cases import FIELDS, Case, Scalar
from benchrack.vocabulary.descriptors import Accelerator
from benchrack.vocabulary.results import Findings, Measurement
from benchrack.vocabulary.settings import Limits, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What a scenario is asked over: a key of its table in a sweep file, and perhaps an option.

    `name` is the key (`batch_sizes`), whose values are lists; `field` is what one of them is called
    in a case (`batch_size`): a field of Case itself, or else a key of `Case.axes`. Values are of
    the type `kind`, not below `least` if they are numbers, and among `choices` if there are any;
    `because` says why. `default` stands where a table lacks the key; without one it must be there.
    `option`, such as `--batch-sizes`, sets it on the command line; scenarios that share an option
    share its meaning.
    """

    name: str
    field: str
    kind: type[str] | type[int] | type[float]
    help: str
    option: str | None = None
    default: tuple[Scalar, ...] | None = None
    choices: tuple[Scalar, ...] = ()
    least: float = 1
    because: str = ""

    @property
    def common(self) -> bool:
        """Whether its value stands in a field of Case, as every scenario's does."""
        return self.field in FIELDS

    def read(self, word: str) -> Scalar:
        """A word of the command line as a value. Raises ValueError, which says what is expected."""
        try:
            return self.checked(self.kind(word))
        except (TypeError, ValueError):
            raise ValueError(f"expected {self.expected}, found {word!r}") from None

    def checked(self, value: object) -> Scalar:
        """A value of a sweep file, if it is one. Raises ValueError as `read` does."""
        known = self.choices and value not in self.choices
        low = isinstance(value, int | float) and value < self.least
        if type(value) is not self.kind or known or low:
            raise ValueError(f"expected {self.expected}, found {value!r}")
        return value

    @property
    def expected(self) -> str:
        """Its values, in words."""
        words = {str: "texts", int: "whole numbers", float: "numbers"}[self.kind]
        if self.choices:
            words = " or ".join(map(str, self.choices))
        elif self.kind is not str:
            words += f" from {self.least:g}"
        return f"{words}, {self.because}" if self.because else words


def _common(name: str, kind: type[str] | type[int], **more: Any) -> Axis:
    """An axis that all scenarios have which have models."""
    words = name.replace("_", " ")
    option, help_ = f"--{name.replace('_', '-')}", f"{words} instead of the sweep's"
    return Axis(
        name=name, field=name.removesuffix("s"), kind=kind, option=option, help=help_, **more
    )


MODELS = _common("models", str)
BACKENDS = _common("backends", str)
DEVICE_COUNTS = _common("device_counts", int, default=(1,))
BATCH_SIZES = _common("batch_sizes", int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A figure of a scenario's result: the field `name` of its part, a number or an Interval, in
    `unit`; which way is better; and what it is called in a table (`images/s` where empty)."""

    name: str
    unit: str
    better: Literal["higher", "lower"]
    title: str = ""

    def of(self, result: Any) -> Interval | None:
        """The figure of a result; None where it has none."""
        found = getattr(result, self.name, None)
        return found if isinstance(found, Interval | None) else Interval(value=found)

    @property
    def header(self) -> str:
        """Title and unit, as a column shows them."""
        return " ".join(filter(None, (self.title, self.unit)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """What a measurement is judged by: the settings and their limits, the scenario, and the
    descriptor of the card where it is known."""

    settings: Settings
    scenario: Scenario
    card: Accelerator | None = None

    @property
    def limits(self) -> Limits:
        return self.settings.limits


Check = Callable[[Measurement, Yardstick], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A reason not to quote a number: `check` says what was found against it, or None. A verdict
    has it as `name: what was found`."""

    name: str
    check: Check


def of_the_slowest(results: Sequence[Any]) -> Any:
    """Of several ranks' results, the slowest's first, that one's."""
    return results[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A question that a case can ask, and all that Benchrack needs to know to ask it.

    `name` is that of its table in a sweep file, of its pytest marker, and a field of its cases;
    `question` is one line. Cases are made over `axes`, in this order, which is also that of
    pytest. What a backend must offer is in `needs`: a session for inference, one for training, or
    nothing at all: then there is no model.

    `measure(bench, case, session)` finds it out (bench/bench.py; the session is the backend's,
    or None). Its own figures are one frozen dataclass, `part`, flattened into the record behind the
    class's `prefix`, or else behind the scenario's name. If it has a method `rate(images)`, that
    tells images/s where all devices together take so many at once, to compare with a card's peak.
    `combine` makes one part of those of several ranks, of which the slowest comes first. `headline`
    is what a scenario is about, and `metrics` are other figures that a report shows.

    `rules` are its own reasons against a number, beside the common ones. `starts` says whether the
    answer is a matter of time: then fresh processes repeat it, and what slows a machine down speaks
    against it. `cost(case, settings, batch_s, images)` is what measuring takes, in seconds, if a
    batch takes `batch_s` and its data set has so many images. `in_words(result)` is what a verbose
    run shows of a case; by default its headline.
    """

    name: str
    question: str
    axes: tuple[Axis, ...]
    part: type
    measure: Callable[..., Findings]
    headline: Metric
    cost: Callable[[Case, Settings, float, int], float]
    needs: Literal["inference", "training", "nothing"] = "inference"
    metrics: tuple[Metric, ...] = ()
    rules: tuple[Rule, ...] = ()
    combine: Callable[[Sequence[Any]], Any] = of_the_slowest
    starts: bool = True
    in_words: Callable[[Any], str] | None = None
