"""Benchrack against a bare loop and against ranks, interleaved, as ratios in one run.

    python benchmarks/inference_speed.py [--pairs 5] [--seconds 3]

Prints four ratios with the spread of their pairs:
  harness   images/s that Benchrack reports ÷ those of a bare timed loop over the same session
            (ResNet-50, PyTorch FP32, batch 8); within 1 % is the goal
  eager     Benchrack's PyTorch FP32 ÷ a bare eager loop, best of contiguous and channels last
  peer      ONNX Runtime FP32 ÷ onnxruntime's own `onnxruntime_test` on the same file, all cores
  int8      ONNX Runtime INT8 ÷ FP32, ResNet-50, batch 1, one core; at least 3 with VNNI

Each pair takes both sides one after the other, the order swapped from pair to pair, so that what
drifts on a shared machine falls on both. Pairs during which other processes took more than 5 % of
the CPU are counted and named, never dropped in silence.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial

from benchrack.bench.bench import Bench
from benchrack.machine.devices import CPU
from benchrack.machine.surroundings import cpu_times, foreign_share
from benchrack.registry.registry import load_registry
from benchrack.timing.rotation import Rotation, rotation
from benchrack.timing.rounds import measure_rounds, warm_up
from benchrack.vocabulary.backends import Session
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.settings import Settings

MODEL = "resnet50"
FOREIGN = 0.05

Side = Callable[[], float]


def bench(threads: int, seconds: float) -> Bench:
    settings = Settings.of(
        threads=threads, time_limit_s=seconds, warmup_limit_s=5, interval=0.0, inputs_mib=64
    )
    return Bench.on(CPU, load_registry(), settings)


def case(backend: str, batch_size: int) -> Case:
    return Case(scenario="throughput", model=MODEL, backend=backend, batch_size=batch_size)


def rotating(here: Bench, chosen: Case, session: Session) -> Rotation:
    """The batches that Benchrack would run, without copies."""
    pool = here.data.distinct_inputs(chosen)
    seed = here.settings.measure.seed
    return rotation(pool, session, chosen.batch_size, seed=seed, transfer=False)


def reported(bench: Bench, batches: Rotation, batch_size: int, batch_s: float) -> float:
    """Images per second as Benchrack reports them."""
    rounds = measure_rounds(
        batches.step, batches.session.synchronize, bench.settings.measure, bench.clock, batch_s
    )
    return batch_size / rounds.assessment.interval.value


def bare(run: Callable[[int], object], batch_size: int, seconds: float) -> float:
    """Images per second of the plainest timed loop: the median batch."""
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples) < 3:
        started = time.perf_counter()
        run(len(samples))
        samples.append(time.perf_counter() - started)
    return batch_size / statistics.median(samples)


def pairs(name: str, ours: Side, theirs: Side, count: int) -> None:
    """Print the median ratio ours ÷ theirs, its range, and how many pairs were disturbed."""
    ratios, disturbed = [], 0
    for number in range(count):
        before = cpu_times()
        first, second = (ours, theirs) if number % 2 == 0 else (theirs, ours)
        values = {first: first(), second: second()}
        ratios.append(values[ours] / values[theirs])
        disturbed += (foreign_share(before, cpu_times()) or 0.0) > FOREIGN
    low, high = min(ratios), max(ratios)
    print(
        f"{name:<8} {statistics.median(ratios):7.3f}   pairs {low:.3f} to {high:.3f}, "
        f"{disturbed} of {count} disturbed by other processes",
        flush=True,
    )


def warmed(bench: Bench, batches: Rotation) -> float:
    """Seconds a batch, once it is steady."""
    warmup = warm_up(batches.step, batches.session.synchronize, bench.settings.measure, bench.clock)
    return warmup.batch_s


def harness_and_eager(count: int, seconds: float) -> None:
    here = bench(0, seconds)
    chosen = case("pytorch-fp32", 8)
    with closing(here.prepare(chosen)) as session:
        batches = rotating(here, chosen, session)
        batch_s = warmed(here, batches)

        def ours() -> float:
            return reported(here, batches, 8, batch_s)

        def same_session() -> float:
            placed = batches.batches
            return bare(lambda i: session.run(placed[i % len(placed)]), 8, seconds)

        pairs("harness", ours, same_session, count)
        pairs("eager", ours, lambda: eager(here, chosen, seconds), count)


def eager(here: Bench, chosen: Case, seconds: float) -> float:
    """A bare eager loop over the same weights and inputs, in the better of two memory formats."""
    import torch

    torch.set_num_threads(here.threads)
    loaded = here.registry.model(MODEL).load("auto", here.cache)
    images = torch.from_numpy(here.data.distinct_inputs(chosen)[:16].copy()).split(8)
    best = 0.0
    for layout in (torch.contiguous_format, torch.channels_last):
        module = loaded.module.to(memory_format=layout)
        placed = [batch.contiguous(memory_format=layout) for batch in images]
        with torch.inference_mode():
            module(placed[0])
            best = max(best, bare(lambda i: module(placed[i % 2]), 8, seconds / 2))  # noqa: B023
    return best


def onnxruntime_side(here: Bench, precision: str) -> Side:
    """Benchrack's images per second of ONNX Runtime at batch 1, on a session that is warm."""
    chosen = case(f"onnxruntime-{precision}", 1)
    batches = rotating(here, chosen, here.prepare(chosen))
    batch_s = warmed(here, batches)
    return lambda: reported(here, batches, 1, batch_s)


def int8_and_peer(count: int, seconds: float) -> None:
    here = bench(0, seconds)
    theirs = partial(onnxruntime_test, here, seconds)
    pairs("peer", onnxruntime_side(here, "fp32"), theirs, count)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    core = bench(1, seconds)
    pairs("int8", onnxruntime_side(core, "int8"), onnxruntime_side(core, "fp32"), count)


def onnxruntime_test(here: Bench, seconds: float) -> float:
    """Images per second by the tool in onnxruntime's own wheel, on the same file.

    It prints a mean, of runs on one input that it makes itself, and takes all cores: it has no
    option for threads, and leaves an affinity mask.
    """
    loaded = here.registry.model(MODEL).load("auto", here.cache)
    entries = [e for e in here.cache.entries() if e.kind == "onnx"]
    path = next(e.path for e in entries if e.key.get("weights") == loaded.digest)
    runs = max(30, int(seconds * 30))
    tool = [sys.executable, "-m", "onnxruntime.tools.onnxruntime_test"]
    command = [*tool, str(path / "model.onnx"), str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"avg latency: ([\d.]+) ms", done.stdout)
    if found is None:
        raise SystemExit(f"onnxruntime_test said something else: {done.stdout}{done.stderr}")
    return 1000 / float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each side of a pair")
    arguments = parser.parse_args()
    harness_and_eager(arguments.pairs, arguments.seconds)
    int8_and_peer(arguments.pairs, arguments.seconds)


if __name__ == "__main__":
    main()
