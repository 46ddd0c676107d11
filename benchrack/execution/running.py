"""One case from its preparation to its verdict."""

from __future__ import annotations

import dataclasses
import gc
from contextlib import closing, suppress

from benchrack.errors import BenchrackError, OutOfMemoryError, UnsupportedError
from benchrack.machine.gauges import peak_share
from benchrack.machine.memory import ran_out
from benchrack.scenarios import speed
from benchrack.scenarios.bench import Bench
from benchrack.timing.ranks import prepared_by_all
from benchrack.verdict.peak import share_of_peak
from benchrack.verdict.rules import judge
from benchrack.vocabulary.backends import Session
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.findings import Findings
from benchrack.vocabulary.results import Measurement, Preparation


def run_case(bench: Bench, case: Case) -> Measurement:
    """Prepare, measure and judge one case on the bench's device.

    Raises UnsupportedError (also for other device counts than the bench has, which need a world),
    OutOfMemoryError, DatasetError, WeightsError or CacheError; whatever else a backend raises
    passes through.
    """
    if case.device_count != 1:
        raise UnsupportedError(
            f"{case.device_count} devices were asked for, and this process measures on one"
        )
    return judged(bench, measure(bench, case)[0])


def measure(bench: Bench, case: Case) -> tuple[Measurement, Findings]:
    """What this process measures of a case, without a verdict, and what it is made of.

    Raises what `run_case` does, and PeersError where peers could not prepare it.
    """
    started = bench.clock()
    try:
        with closing(_by_all(bench, case)) as session:
            prepare_s = bench.clock() - started
            found = speed.measure(bench, case, session)
            prepared = _prepared(bench, case, session, prepare_s, found.first_batch_s)
    except BenchrackError:
        raise
    except Exception as error:
        if (reason := _out_of_memory(bench, error)) is None:
            raise
        raise OutOfMemoryError(reason + _allowed(bench)) from error
    measured = Measurement(
        case=case,
        engine=session.engine,
        preparation=prepared,
        seconds_per_batch=found.seconds_per_batch,
        images_per_s=found.images_per_s,
        steadiness=found.steadiness,
        latency=found.latency,
        accuracy=found.accuracy,
        output_check=found.output_check,
        power=found.power,
        surroundings=found.surroundings,
        footprint=found.footprint,
    )
    return measured, found


def judged(bench: Bench, measured: Measurement) -> Measurement:
    """With its verdict, and the share of the card's peak that it reached."""
    return dataclasses.replace(
        measured,
        share_of_peak=share_of_peak(measured, bench.card),
        reasons=judge(measured, bench.settings, bench.card),
    )


def settle() -> None:
    """Between cases: let go of what the last one left, and keep what remains, modules above all,
    out of later collections: with torch loaded each takes a tenth of a second, several times a
    case."""
    gc.collect()
    gc.freeze()


def _by_all(bench: Bench, case: Case) -> Session:
    """A session of this process; its peers prepare theirs. On the CPU all that is slow is behind
    the cache's lock, but for cards frameworks build engines that only later processes find."""
    in_turn = bench.device.kind != "cpu"
    return prepared_by_all(bench.peers, lambda: _session(bench, case), in_turn=in_turn)


def _session(bench: Bench, case: Case) -> Session:
    if reason := bench.unsupported(case):
        raise UnsupportedError(reason)
    bench.progress("preparing")
    return bench.prepare(case)


def _out_of_memory(bench: Bench, error: Exception) -> str | None:
    """An error of a framework in words, if what it says is that memory ran out."""
    lines = str(error).strip().splitlines() or [""]
    if isinstance(error, MemoryError):
        return ": ".join(filter(None, ["the host ran out of memory", lines[0]]))
    share = None
    with suppress(Exception):  # a card that is lost must not hide the error it caused
        share = peak_share(bench.gauge) if bench.gauge else None
    return lines[0] if ran_out(str(error), share) else None


def _allowed(bench: Bench) -> str:
    """What the user allowed, where that may be what ran out."""
    gib = bench.settings.memory_gib
    return f" (memory_gib allows {gib:g} GiB)" if gib and bench.device.kind == "cpu" else ""


def _prepared(
    bench: Bench, case: Case, session: Session, prepare_s: float, first_batch_s: float | None
) -> Preparation:
    split, loaded = bench.split(case), session.loaded
    return Preparation(
        prepare_s=prepare_s,
        asked_precision=bench.registry.backend(case.backend).precision,
        first_batch_s=first_batch_s,
        weights_used=loaded.weights,
        weights_digest=loaded.digest,
        trained=loaded.trained,
        parameters=loaded.parameters,
        multiply_accumulates=loaded.multiply_accumulates,
        data_used=split.name,
        data_digest=split.digest,
        data_images=len(split.measured),
        calibration_images=len(split.calibration),
    )
