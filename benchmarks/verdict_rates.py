"""How often the verdict's rules on rounds, `not-steady` and `noisy`, speak on simulated rounds.

The series are those of interval_coverage.py, each run to the end of the stop rule. Prints Markdown:
python benchmarks/verdict_rates.py --repetitions 500
"""

from __future__ import annotations

import argparse
import itertools
import random

import tabulate
from interval_coverage import DRIFTS, PROCESSES, Process, share, stop_rule

from benchrack.registry.registry import built_in_scenarios
from benchrack.statistics.interval import Interval
from benchrack.verdict.rules import judge
from benchrack.vocabulary.backends import Engine
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.results import Measurement, Preparation, Steadiness
from benchrack.vocabulary.scenarios import Yardstick
from benchrack.vocabulary.settings import Settings

LIMIT = 1000
THROUGHPUT = built_in_scenarios()["throughput"]
RULES = ("not-steady", "noisy")


def verdict(process: Process, rng: random.Random) -> list[str]:
    """The rules that speak against one run, whose warm-up was steady."""
    rounds = list(itertools.islice(process(rng), LIMIT))
    seen, assessment, _ = stop_rule(rounds)
    measured = Measurement(
        case=Case(scenario="throughput", model="simulated", backend="simulated", batch_size=1),
        engine=Engine(name="simulated", version="", device="", precision="fp32"),
        preparation=Preparation(prepare_s=0, asked_precision="fp32"),
        seconds_per_batch=tuple(rounds[:seen]),
        result=THROUGHPUT.part(
            images_per_s=Interval(
                value=1 / assessment.interval.value,
                low=assessment.interval.high and 1 / assessment.interval.high,
                high=assessment.interval.low and 1 / assessment.interval.low,
            )
        ),
        steadiness=Steadiness(
            transfer="exclude",
            warmup_s=1,
            warmup_batches=100,
            warmup_steady=True,
            coefficient_of_variation=assessment.coefficient_of_variation,
        ),
    )
    return [
        reason.partition(":")[0]
        for reason in judge(measured, Yardstick(settings=Settings(), scenario=THROUGHPUT))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500, help="simulated runs a row")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.repetitions < 1:
        parser.error("needs at least 1 repetition")
    rows = []
    for name, process in (PROCESSES | DRIFTS).items():
        rng = random.Random(options.seed)
        verdicts = [verdict(process, rng) for _ in range(options.repetitions)]
        rows.append([name, *(share([rule in found for found in verdicts]) for rule in RULES)])
    print(tabulate.tabulate(rows, ("rounds", *RULES), tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
