"""How far metered energy is from the truth, on power traces whose integral is known exactly.

The NVML meter of Benchrack meters a fake NVML (tests/fakes) that plays a trace through a sensor,
on a fake clock: windows begin at random moments of the trace, and the sensor's ticks at random
phases. Prints Markdown tables: the error, and how often the stated uncertainty covered it; then the
same over all windows that Benchrack does not flag: those that are long enough, and whose stated
uncertainty is within `limit_energy_uncertainty`.

    python benchmarks/energy_error.py --repetitions 200
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tabulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fakes import nvml
from fakes.power import TRACES, FakeClock, PowerTrace, Sensor, recorded

from benchrack.energy.metering import window
from benchrack.plugins.meters.nvml import NvmlMeter
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.settings import Settings

BEGIN_S, LENGTH_S = 2.0, 45.0  # traces idle until the first, and work for the second
PLATEAU_S = 0.5
WINDOWS_S = (1.0, 2.0, 4.0, 10.0)

Knots = Iterator[tuple[float, float]]


def noisy_plateau(rng: random.Random, length_s: float) -> Knots:
    """180 W with 2.5 % of noise (twice a recorded V100's), renewed every 10 ms, correlated."""
    level = 0.0
    for k in range(int(length_s * 100)):
        level = 0.5 * level + rng.gauss(0, 1)
        yield k / 100, 180 * (1 + 0.025 * level * math.sqrt(0.75))


def pulses(rng: random.Random, length_s: float) -> Knots:
    """Batches with gaps: 230 W for 60 to 80 % of a period of 7 to 40 ms, else 120 W."""
    period_s, duty = rng.uniform(0.007, 0.04), rng.uniform(0.6, 0.8)
    for k in range(int(length_s / period_s)):
        start_s = k * period_s
        yield from ((start_s, 120.0), (start_s, 230.0))
        yield from ((start_s + duty * period_s, 230.0), (start_s + duty * period_s, 120.0))


def warming_up(rng: random.Random, length_s: float) -> Knots:
    """A card that grows warm: from 150 W towards 190 W, and a ripple of 2 %."""
    for k in range(int(length_s * 50)):
        yield k / 50, 150 + 40 * (1 - math.exp(-k / 50 / 20)) + rng.gauss(0, 3)


def throttling(rng: random.Random, length_s: float) -> Knots:
    """A card at its power limit: 250 W, and every two seconds or so 160 W for half of one."""
    time_s, power_w = 0.0, 250.0
    while time_s < length_s:
        yield time_s, power_w
        time_s += rng.uniform(1.5, 2.5) if power_w > 200 else rng.uniform(0.3, 0.6)
        yield time_s, power_w
        power_w = 410.0 - power_w


CARDS: dict[str, Callable[[PowerTrace, random.Random], nvml.Card]] = {
    "sampled, sensor 20 ms": lambda trace, rng: nvml.p40(
        trace=trace, sensor=Sensor(period_s=0.02, averaging_s=0.01, phase_s=rng.random())
    ),
    "sampled, sensor 100 ms": lambda trace, rng: nvml.p4(
        trace=trace, sensor=Sensor(period_s=0.1, averaging_s=0.025, phase_s=rng.random())
    ),
    "counter, 20 ms": lambda trace, rng: nvml.v100(
        0x1A, [], trace=trace, counter=Sensor(period_s=0.02, phase_s=rng.random())
    ),
    "counter, 100 ms": lambda trace, rng: nvml.h200(
        trace=trace, counter=Sensor(period_s=0.1, phase_s=rng.random())
    ),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one window: relative error, relative stated uncertainty, whether that covers the error;
    and whether the window is accepted: long enough, and the energy known well enough."""

    error: float
    uncertainty: float
    accepted: bool

    @property
    def covered(self) -> bool:
        return abs(self.error) <= self.uncertainty


def metered(card: nvml.Card, start_s: float, window_s: float) -> Outcome:
    clock = FakeClock()
    library = nvml.module(nvml.Machine(cards=[card], clock=clock))
    library.nvmlInit()
    meter = NvmlMeter(library, [Device(kind="cuda")], clock)
    clock.now_s = max(clock.now_s, start_s)
    with window([meter], clock, threaded=False) as seen:
        until_s = clock() + window_s + 1e-6  # no shorter by the rounding of floats
        while clock() < until_s:
            clock.sleep(min(seen.sampler.sample_due() or 1e-3, until_s - clock()))
    (reading,) = seen.readings
    truth_j = card.trace.energy(seen.start_s, seen.stop_s)
    assert reading.energy_j is not None
    assert reading.uncertainty_j is not None
    stated = reading.uncertainty_j / reading.energy_j
    accepted = not reading.too_short and stated <= Settings().limits.energy_uncertainty
    return Outcome(reading.energy_j / truth_j - 1, reading.uncertainty_j / truth_j, accepted)


def generated(load: Callable[[random.Random, float], Knots], rng: random.Random) -> PowerTrace:
    idle = [(k / 100, 50 + rng.gauss(0, 0.2)) for k in range(int(BEGIN_S * 100))]
    busy = [(BEGIN_S + t, p) for t, p in load(rng, LENGTH_S)]
    return PowerTrace([*idle, *busy])


def recorded_v100(rng: random.Random, length_s: float) -> Knots:
    """The recorded trace, less the time before it begins to work at 0.849 s. It lasts 3.8 s; its
    plateau, from half a second on, is repeated."""
    trace = recorded(TRACES / "tesla-v100-sxm2-16gb.csv")
    knots = [(t - 0.849, p) for t, p in zip(trace.times_s, trace.power_w, strict=True)]
    plateau = [(t - PLATEAU_S, p) for t, p in knots if t >= PLATEAU_S]
    yield from (knot for knot in knots if 0 <= knot[0] < PLATEAU_S)
    gap_s = plateau[-1][0] - plateau[-2][0]
    for k in range(math.ceil(length_s / plateau[-1][0])):
        start_s = PLATEAU_S + k * (plateau[-1][0] + gap_s)
        yield from ((start_s + t, p) for t, p in plateau)


@dataclass(frozen=True, slots=True)
class Case:
    """A load, and when the windows over it begin, in seconds after it."""

    name: str
    load: Callable[[random.Random, float], Knots]
    begin_s: tuple[float, float]


STEADY = [
    Case("noisy plateau", noisy_plateau, (1, 30)),
    Case("warming up", warming_up, (1, 30)),
    Case("recorded V100, plateau", recorded_v100, (0.5, 3.5)),
]
UNSTEADY = [
    Case("throttling", throttling, (1, 30)),
    Case("pulses of 7 to 40 ms", pulses, (1, 30)),
    Case("recorded V100, from idle", recorded_v100, (-0.2, 0.0)),
]


def measured(
    cases: list[Case], windows_s: Sequence[float], repetitions: int, seed: int
) -> Iterator[tuple[Case, str, float, list[Outcome]]]:
    for case, card, window_s in itertools.product(cases, CARDS, windows_s):
        rng = random.Random(f"{seed} {case.name} {card} {window_s}")
        outcomes = [
            metered(
                CARDS[card](generated(case.load, rng), rng),
                BEGIN_S + rng.uniform(*case.begin_s),
                window_s,
            )
            for _ in range(repetitions)
        ]
        yield case, card, window_s, outcomes


def figures(outcomes: list[Outcome]) -> list[str]:
    errors = sorted(abs(o.error) for o in outcomes)
    return [
        f"{statistics.fmean(o.error for o in outcomes):+.2%}",
        f"{errors[math.ceil(0.95 * len(errors)) - 1]:.2%}",
        f"{errors[-1]:.2%}",
        f"{statistics.fmean(error < 0.02 for error in errors):.1%}",
        f"{statistics.median(o.uncertainty for o in outcomes):.2%}",
        f"{statistics.fmean(o.covered for o in outcomes):.1%}",
    ]


def table(rows: list[list[str]], *keys: str) -> str:
    headers = (*keys, "mean error", "95 % within", "largest", "below 2 %", "stated", "covered")
    return tabulate.tabulate(rows, headers, tablefmt="github", disable_numparse=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repetitions", type=int, default=100, help="windows a row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loads", default="", help="only those whose name has this in it")
    parser.add_argument("--windows", type=float, nargs="+", default=WINDOWS_S, help="seconds")
    asked = parser.parse_args()
    accepted: dict[tuple[str, str], list[Outcome]] = {}
    for title, cases in (
        ("Windows inside a load that is warm, as Benchrack takes them", STEADY),
        ("Loads that step, pulse, or begin with the window", UNSTEADY),
    ):
        rows = []
        chosen = [case for case in cases if asked.loads in case.name]
        for case, card, window_s, outcomes in measured(
            chosen, asked.windows, asked.repetitions, asked.seed
        ):
            enough = [o for o in outcomes if o.accepted]
            accepted.setdefault((case.name, card), []).extend(enough)
            share = f"{len(enough) / len(outcomes):.0%}"
            rows.append([case.name, card, f"{window_s:g}", share, *figures(outcomes)])
        if not rows:
            continue
        print(f"{title}: {asked.repetitions} windows a row, median of the stated uncertainty\n")
        print(table(rows, "load", "card", "window, s", "accepted"), "\n")
    print("Windows that are accepted\n")
    rows = [
        [*key, str(len(outcomes)), *figures(outcomes)]
        for key, outcomes in accepted.items()
        if outcomes
    ]
    print(table(rows, "load", "card", "windows"), "\n")


if __name__ == "__main__":
    main()
