"""CPU time of one sample of the NVML meter, and the share of a core that its thread takes.

Against the fake NVML of the tests, so the driver's own time is not in it: on a card the sampler
measures what its samples cost, and takes fewer where they cost more. Prints a Markdown table.

    python benchmarks/sampler_cost.py --seconds 5
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import tabulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fakes import nvml

from benchrack.energy.metering import window
from benchrack.plugins.meters.nvml import NvmlMeter
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.meters import SystemClock

TOO_MUCH_S = 500e-6
TOO_MUCH_OF_A_CORE = 0.005


def opened(machine: nvml.Machine) -> NvmlMeter:
    library = nvml.module(machine)
    library.nvmlInit()
    devices = [Device(kind="cuda", index=i) for i in range(len(machine.cards))]
    return NvmlMeter(library, devices, machine.clock)


def cost_of_a_sample(meter: NvmlMeter, repetitions: int) -> float:
    """Mean CPU seconds of a sample, every fifth of which reads the conditions too."""
    meter.begin()
    started = time.thread_time()
    for _ in range(repetitions):
        meter.sample()
    return (time.thread_time() - started) / repetitions


def share_of_a_core(meter: NvmlMeter, seconds: float) -> tuple[float, float]:
    """CPU time of sampling during a real window of the thread, as a share, and samples a second.

    The thread's own waiting is in it: the CPU time of the process, which does nothing else.
    """
    clock = SystemClock()
    with window([meter], clock) as metered:
        started = time.process_time()
        clock.sleep(seconds)
        used_s = time.process_time() - started
    return used_s / seconds, metered.sampler.samples / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="of the thread, for each machine"
    )
    parser.add_argument("--repetitions", type=int, default=2000, help="samples whose cost is timed")
    asked = parser.parse_args()
    machines: tuple[Callable[[], nvml.Machine], ...] = (
        lambda: nvml.Machine(cards=[nvml.p4()]),
        nvml.four_p4,
        nvml.three_p40,
        nvml.four_v100_sxm2,
        nvml.one_h200,
    )
    table = []
    for machine in (make() for make in machines):
        meter = opened(machine)
        cost_s = cost_of_a_sample(meter, asked.repetitions)
        share, rate = share_of_a_core(meter, asked.seconds)
        within = cost_s <= TOO_MUCH_S and share <= TOO_MUCH_OF_A_CORE
        table.append(
            [
                f"{len(machine.cards)} × {machine.cards[0].name}",
                meter.method,
                f"{cost_s * 1e6:.0f}",
                f"{rate:.1f}",
                f"{share:.2%}",
                "yes" if within else "no",
            ]
        )
    headers = ("cards", "method", "CPU µs a sample", "samples/s", "of a core", "within limits")
    print(tabulate.tabulate(table, headers, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
