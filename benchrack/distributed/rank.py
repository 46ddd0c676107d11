"""One process of a world: joins the others, and measures the cases that its launcher hands on.

Torch's elastic launcher calls `main` in each process (launcher.py). Messages to and from the
launcher go over a Unix socket. A process whose launcher is gone ends at once.
"""

from __future__ import annotations

import ctypes
import dataclasses
import faulthandler
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Client
from typing import Any, TypeVar

from benchrack.bench.bench import Bench
from benchrack.distributed.combining import RankResult, combined, disagreement
from benchrack.distributed.hub import Hub, Where
from benchrack.distributed.messages import Ready, Refused, Started, WorldSetup
from benchrack.distributed.part import WorldPart
from benchrack.errors import RankLostError
from benchrack.execution import running
from benchrack.execution.lifeline import Lifeline, own
from benchrack.execution.messages import Measured, Phase
from benchrack.execution.worker import bench_of
from benchrack.machine import placement
from benchrack.machine.gauges import limit_host_memory
from benchrack.machine.memory import GIB
from benchrack.machine.placement import Place
from benchrack.timing.ranks import Failure, RanksError
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.progress import silent
from benchrack.vocabulary.results import Measurement

T = TypeVar("T")

DUMP = signal.SIGUSR1  # asks for this process's stack, wherever it hangs
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldRanks:
    """The other processes: numbers go through the hub, what is larger through torch's gloo."""

    rank: int
    size: int
    local_rank: int
    hub: Hub

    def barrier(self) -> None:
        self.all_reduce_max(0.0)

    def all_reduce_max(self, *values: float) -> tuple[float, ...]:
        return self.hub.all_reduce_max(values)

    def gather(self, mine: T) -> list[T]:
        from torch import distributed

        gathered: list[Any] = [None] * self.size
        try:
            distributed.all_gather_object(gathered, mine)
        except RuntimeError as error:
            raise RankLostError(str(error)) from error
        return gathered


def main(setup: WorldSetup) -> None:
    """Measure cases until the launcher ends."""
    part, local_rank = setup.part, int(os.environ["LOCAL_RANK"])
    _end_with_launcher()
    with open(part.stack(local_rank), "w", encoding="utf-8") as stack:
        faulthandler.register(DUMP, file=stack, all_threads=True)
        launcher = Lifeline(own(Client(part.socket)))
        launcher.send(Started(local_rank, os.getpid()))
        try:
            _serve(setup, local_rank, launcher)
        except BaseException as error:
            launcher.send(Failure.of(part.rank(local_rank), error))
            raise


def _serve(setup: WorldSetup, local_rank: int, launcher: Lifeline) -> None:
    part, place = setup.part, setup.places[local_rank]
    placement.bind(place.cpus)
    if place.device.kind == "cuda":
        _choose(place.device.index)
    # One process of each machine reads its meters: for all devices of the world there.
    metered = [] if local_rank else [other.device for other in setup.places]
    bench = dataclasses.replace(
        bench_of(setup, place.device, metered),
        progress=silent if local_rank else lambda phase: launcher.send(Phase(phase)),
        ranks=_join(part, local_rank),
    )
    bench.ranks.barrier()
    startup_s = time.monotonic() - part.asked_at
    launcher.send(Ready())
    while True:
        case: Case = launcher.next()
        if place.device.kind == "cpu":
            limit_bytes = int(bench.settings.run.memory_gib * GIB)
            limit_host_memory(limit_bytes, sharers=part.local_size)
        try:
            launcher.send(Measured.of(_measure(bench, case, part, place, startup_s)))
        except RanksError as error:  # all know of it, and go on
            launcher.send(Refused(tuple(error.failures)))
        running.settle()


def _choose(index: int) -> None:
    """For libraries that use the current card. Whether torch can use it matters to its own backends
    only, which say why they can't."""
    import torch

    with suppress(Exception):
        torch.cuda.set_device(index)


def _join(part: WorldPart, local_rank: int) -> WorldRanks:
    from torch import distributed

    if part.interface:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", part.interface)
    rank = part.rank(local_rank)
    distributed.init_process_group(
        "gloo",
        rank=rank,
        world_size=part.size,
        timeout=timedelta(seconds=max(part.limit_s, part.join_limit_s)),
    )

    def tell(where: Where | None) -> Where:
        box: list[Any] = [where]
        distributed.broadcast_object_list(box, src=0)
        told: Where = box[0]
        return told

    hub = Hub.open(rank, part.size, part.address, tell)
    return WorldRanks(rank=rank, size=part.size, local_rank=local_rank, hub=hub)


def _measure(
    bench: Bench, case: Case, part: WorldPart, place: Place, startup_s: float
) -> Measurement:
    measurement, found = running.measure(bench, case)
    result = RankResult(
        measurement=measurement,
        own_seconds_per_batch=found.own_seconds_per_batch or found.seconds_per_batch,
        between_s=found.between_s,
        startup_s=startup_s,
        node=part.node,
        placement=place.description,
    )
    ranks = bench.ranks.gather(result)
    if error := disagreement(ranks):
        raise RanksError([Failure.of(rank, error) for rank in range(part.size)])
    return running.judged(bench, combined(ranks, bench.registry.scenario(case.scenario)))


def _end_with_launcher() -> None:
    """Have the kernel kill this process when the one that it was forked from dies, which ends with
    the launcher; also where it hangs in C."""
    with suppress(OSError, AttributeError):  # not Linux
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
