"""A scenario of one's own: how long until a process that was just started gives an answer."""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path

from benchrack.api import (
    BACKENDS,
    BATCH_SIZES,
    DEVICE_COUNTS,
    MODELS,
    Axis,
    Bench,
    Case,
    Findings,
    Measurement,
    Metric,
    Rule,
    Scenario,
    Session,
    Settings,
    Yardstick,
    hookimpl,
)

MEASURED = itertools.count()  # the cases that this process has measured


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBatch:
    """In the record as `first_batch_answer_s`, and so on: behind the scenario's name."""

    answer_s: float
    earlier_cases: int


def measure(bench: Bench, case: Case, session: Session) -> Findings:
    """One batch, from the start of the process or from the ready session to its outputs."""
    batch = next(bench.data.measured(case)).images
    bench.progress("waiting for the first answer")
    started = bench.clock()
    session.fetch(session.run(session.place(batch)))
    batch_s = bench.clock() - started
    result = FirstBatch(
        answer_s=age_of_this_process_s() if case.axes["since"] == "start" else batch_s,
        earlier_cases=next(MEASURED),
    )
    return Findings(
        seconds_per_batch=(batch_s,),
        own_seconds_per_batch=(batch_s,),
        first_batch_s=batch_s,
        result=result,
    )


def age_of_this_process_s() -> float:
    """By the kernel's clock, to a hundredth of a second (proc(5), field 22)."""
    after_the_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started_s = int(after_the_name[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s


def not_the_first(m: Measurement, by: Yardstick) -> str | None:
    """A process that measured before has loaded its libraries: `--set starts=6` has fresh ones."""
    earlier = m.result.earlier_cases
    return f"the process had measured {earlier} cases before" if earlier else None


def last_of_all(results: list[FirstBatch]) -> FirstBatch:
    """Several ranks have answered when the last of them has."""
    return max(results, key=lambda result: result.answer_s)


def cost(case: Case, settings: Settings, batch_s: float, images: int) -> float:
    """One batch, and that is all."""
    return batch_s


@hookimpl
def benchrack_scenarios() -> list[Scenario]:
    since = Axis(
        name="since",
        field="since",
        kind=str,
        choices=("start", "ready"),
        default=("start",),
        option="--first-batch-since",
        help="from the start of the process, or from its ready session",
    )
    return [
        Scenario(
            name="first_batch",
            question="how long until the first answer",
            axes=(MODELS, BACKENDS, DEVICE_COUNTS, BATCH_SIZES, since),
            part=FirstBatch,
            measure=measure,
            headline=Metric(name="answer_s", unit="s", better="lower", title="answer after"),
            metrics=(Metric(name="earlier_cases", unit="", better="lower", title="cases before"),),
            rules=(Rule(name="not-the-first", check=not_the_first),),
            combine=last_of_all,
            cost=cost,
        )
    ]
