"""What a world of two processes costs, and what two devices give, on the CPU.

* Meeting and deciding between rounds, as a share of a round of 100 ms; the limit is 1 %.
* Starting two processes until they can measure, beside a bare elastic launch, in turns: the limit
  is twice as long.
* Two replicas of ResNet-50 in INT8 on a core each, against one on a core, in turns, each time in
  fresh processes: at least 1.8 times as many images a second.
* With `--quick-sweep`, which takes a quarter of an hour: the quick sweep over one and two devices
  against its one-device half, each from an empty cache; the limit is twice as long. What is
  prepared serves both counts. Beside it the same again with what is in the cache by then.

A figure is printed with the verdict of the measurements behind it: on a machine that others use it
says so. Two free cores are needed. Prints Markdown:
python benchmarks/world_overhead.py --repetitions 3
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from benchrack.cache import Cache
from benchrack.distributed.world import World
from benchrack.execution.executors import Executor, Worker
from benchrack.execution.messages import Setup
from benchrack.machine.devices import CPU
from benchrack.machine.processors import physical_cores
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.results import Measurement
from benchrack.vocabulary.settings import Settings

ROUND_S = 0.1
BARRIER_LIMIT, START_LIMIT, SCALING_LIMIT, SWEEP_LIMIT = 0.01, 2.0, 1.8, 2.0
BARE = """
import os, sys

def meet():
    import torch
    from torch import distributed
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo")
    distributed.all_reduce(torch.zeros(1))
    distributed.destroy_process_group()

if __name__ == "__main__":
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=2, run_id="bare", rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0", rdzv_configs={"is_host": True}, local_addr="127.0.0.1",
        max_restarts=0,
    )
    elastic_launch(config, meet)()
"""


def case(model: str, backend: str, count: int) -> Case:
    return Case(
        scenario="throughput", model=model, backend=backend, batch_size=1, device_count=count
    )


def executor(**settings: float) -> World:
    chosen = Settings.of(**settings)
    setup = Setup(settings=chosen, device=CPU, cache=str(Cache.default().root))
    return World(setup, (CPU,), Worker(setup))


@contextmanager
def on(cores: Iterable[tuple[int, ...]]) -> Iterator[None]:
    """What is started inside may use only these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu for core in cores for cpu in core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def row(
    what: str, value: str, verdict: bool, limit: str, reasons: Iterable[str] | None = None
) -> None:
    doubts = "–" if reasons is None else "; ".join(dict.fromkeys(reasons)) or "valid"
    print(f"| {what} | {value} | {limit} | {'within' if verdict else 'NOT within'} | {doubts} |")


def barrier() -> None:
    with closing(executor(round_s=ROUND_S, time_limit_s=5, interval=0, warmup_limit_s=5)) as world:
        found = world.run(case("digits-cnn", "pytorch-fp32", 2))
    assert found.world is not None
    assert found.world.barrier_s is not None
    share = found.world.barrier_s / ROUND_S
    value = f"{1e3 * found.world.barrier_s:.2f} ms, {share:.2%} of {1e3 * ROUND_S:.0f} ms"
    row("meeting and deciding, a round", value, share < BARRIER_LIMIT, "1 %", found.reasons)


def bare_s(script: str) -> float:
    with tempfile.TemporaryDirectory() as folder:  # it leaves its logs where temporary files go
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, script],
            check=True,
            env={**os.environ, "TMPDIR": folder},
            stderr=subprocess.DEVNULL,
        )
        return time.perf_counter() - started


def start_s() -> float:
    """Of a world whose case hardly measures."""
    with closing(executor(time_limit_s=0, warmup_limit_s=0)) as world:
        found = world.run(case("digits-cnn", "pytorch-fp32", 2))
    assert found.world is not None
    assert found.world.startup_s is not None
    return found.world.startup_s


def start(repetitions: int) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(BARE)
        script.flush()
        pairs = [(start_s(), bare_s(script.name)) for _ in range(repetitions)]
    own, bare = (statistics.median(taken) for taken in zip(*pairs, strict=True))
    value = f"{own:.2f} s, {own / bare:.2f} × the {bare:.2f} s of a bare launch"
    row("starting two processes", value, own <= START_LIMIT * bare, "2 ×")


def fresh(run: Executor, wanted: Case) -> Measurement:
    return run.run(wanted, fresh=True)


def scaling(repetitions: int) -> None:
    cores = physical_cores(os.sched_getaffinity(0))[:2]
    one_core, two_cores = executor(time_limit_s=5), executor(time_limit_s=5)
    pairs = []
    with closing(one_core), closing(two_cores):
        for _ in range(repetitions):
            with on(cores[:1]):
                alone = fresh(one_core, case("resnet50", "onnxruntime-int8", 1))
            with on(cores):
                both = fresh(two_cores, case("resnet50", "onnxruntime-int8", 2))
            pairs.append((alone, both))
    rates = [[rate(found) for found in side] for side in zip(*pairs, strict=True)]
    alone_rate, both_rate = map(statistics.median, rates)
    ratio = both_rate / alone_rate
    value = f"{both_rate:.1f} images/s, {ratio:.2f} × the {alone_rate:.1f} of one"
    reasons = (reason for pair in pairs for found in pair for reason in found.reasons)
    row("two replicas on a core each", value, ratio >= SCALING_LIMIT, "1.8 ×", reasons)


def rate(found: Measurement) -> float:
    return float(found.result.images_per_s.value)


def sweep_s(counts: str, results: str, cache: str) -> float:
    arguments = ["--pyargs", "benchrack.suites", "-m", "inference", "--device=cpu", "-q"]
    own = [f"--device-counts={counts}", f"--results={results}", "-p", "no:cacheprovider"]
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *arguments, *own],
        check=True,
        cwd=results,
        env={**os.environ, "BENCHRACK_CACHE_DIR": cache},
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - started


def quick_sweep() -> None:
    taken: dict[str, list[float]] = {"from an empty cache": [], "from a filled one": []}
    for counts in ("1", "1,2"):
        with tempfile.TemporaryDirectory() as folder:
            for seconds in taken.values():
                seconds.append(sweep_s(counts, folder, f"{folder}/cache"))
    for cache, (half, whole) in taken.items():
        value = f"{whole:.0f} s, {whole / half:.2f} × the {half:.0f} s of one device"
        within = whole <= SWEEP_LIMIT * half
        row(f"quick sweep over one and two devices, {cache}", value, within, "2 ×")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--quick-sweep", action="store_true")
    arguments = parser.parse_args()
    if len(physical_cores(os.sched_getaffinity(0))) < 2:
        sys.exit("two processes need two cores")
    print("| what | found | limit | | verdict of the measurements |")
    print("|---|---|---|---|---|")
    barrier()
    start(arguments.repetitions)
    scaling(arguments.repetitions)
    if arguments.quick_sweep:
        quick_sweep()


if __name__ == "__main__":
    main()
