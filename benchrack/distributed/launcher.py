"""Starts this machine's processes of a world through torch's elastic launcher, and speaks for them.

`python -m benchrack.distributed.launcher FD` is to `executors.Worker` what the worker is: a setup
and cases in, records or errors out. When the other end is gone, it kills its processes and ends.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from benchrack.distributed.failures import readable
from benchrack.distributed.messages import WorldSetup
from benchrack.distributed.rank import main as rank_main
from benchrack.distributed.relay import Relay
from benchrack.execution.lifeline import own
from benchrack.machine.placement import Place
from benchrack.machine.processors import physical_cores


def main() -> None:
    line = own(Connection(int(sys.argv[1])))
    setup: WorldSetup = line.recv()
    part = setup.part
    tempfile.tempdir = part.folder  # of this process: what it leaves goes with the folder

    def end() -> None:
        for process in multiprocessing.active_children():
            process.kill()
        shutil.rmtree(part.folder, ignore_errors=True)
        os._exit(0)

    _limit_threads(setup.places)
    _preload()
    relay = Relay(part, line)
    relay.start(end)
    relay.ended(launch(setup))
    while True:
        signal.pause()  # whoever asks next is told why they ended


def launch(setup: WorldSetup) -> str:
    """Run the processes until one of them ends; why that was, as torch words it."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    part = setup.part
    config = LaunchConfig(
        min_nodes=part.nodes,
        max_nodes=part.nodes,
        nproc_per_node=part.local_size,
        run_id=part.run_id,
        role="benchrack",
        start_method="forkserver",
        rdzv_backend="c10d",
        rdzv_endpoint=part.endpoint,
        # Who is host is said: by default a machine looks up its own name, which often fails.
        rdzv_configs={"is_host": part.node == 0, "join_timeout": round(part.join_limit_s)},
        local_addr=part.address,
        max_restarts=0,  # a process that starts anew is another measurement
        monitor_interval=0.5,
        logs_specs=DefaultLogsSpecs(log_dir=part.folder, redirects=Std.ALL),
    )
    try:
        elastic_launch(config, rank_main)(setup)
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        return f"local rank {failure.local_rank}: {_message(failure.message)}"
    except Exception as error:  # of the rendezvous, with the whole C++ stack
        return f"{type(error).__name__}: {readable(str(error))}"
    return "they ended"


def _message(message: Any) -> str:
    """Torch keeps an error's message as text, or within an object."""
    return readable(str(message.get("message", message) if isinstance(message, dict) else message))


def _preload() -> None:
    """Load torch once for all processes, while this one loads it for itself: they are forked from
    the one that did, which touches no card. It ends when this one does."""
    multiprocessing.set_forkserver_preload(["torch", "benchrack.distributed.rank"])
    multiprocessing.forkserver.ensure_running()


def _limit_threads(places: Sequence[Place]) -> None:
    """Libraries that start their threads when they are loaded, before a process is bound, count all
    cores: tell them how many are its own."""
    if each := min(len(physical_cores(place.cpus)) for place in places):
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, str(each))


if __name__ == "__main__":
    main()
