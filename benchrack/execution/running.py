"""One case from its preparation to its verdict."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

from benchrack.bench.bench import Bench
from benchrack.errors import BenchrackError, OutOfMemoryError, UnsupportedError
from benchrack.machine.gauges import Gauge, peak_share
from benchrack.machine.memory import ran_out
from benchrack.registry.requirements import only_emulates, require
from benchrack.timing.ranks import prepared_by_all
from benchrack.verdict.peak import share_of_peak
from benchrack.verdict.rules import judge
from benchrack.vocabulary.backends import Backend, Engine, Session, TrainingSession
from benchrack.vocabulary.cases import Case
from benchrack.vocabulary.results import Findings, Found, Measurement, Preparation
from benchrack.vocabulary.scenarios import Scenario, Yardstick


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

    Raises what `run_case` does, and RanksError where ranks could not prepare it.
    """
    scenario = bench.registry.scenario(case.scenario)
    started = bench.clock()
    with _out_of_memory_in_words(bench):
        if scenario.needs == "nothing":
            found = scenario.measure(bench, case, None)
            engine, prepared = _of_no_model(bench, scenario), Preparation(prepare_s=0.0)
        else:
            with closing(_by_all(bench, case, scenario)) as session:
                prepare_s = bench.clock() - started
                found = scenario.measure(bench, case, session)
                engine = session.engine
                prepared = _prepared(bench, case, session, prepare_s, found.first_batch_s)
    shared = {field.name: getattr(found, field.name) for field in dataclasses.fields(Found)}
    measured = Measurement(case=case, engine=found.engine or engine, preparation=prepared, **shared)
    return measured, found


def judged(bench: Bench, measured: Measurement) -> Measurement:
    """With its verdict, and the share of the card's peak that it reached."""
    return dataclasses.replace(
        measured,
        share_of_peak=share_of_peak(measured, bench.card),
        reasons=judge(measured, yardstick(bench, measured.case)),
    )


def yardstick(bench: Bench, case: Case) -> Yardstick:
    """What a case's measurement is judged by."""
    scenario = bench.registry.scenario(case.scenario)
    return Yardstick(settings=bench.settings, scenario=scenario, card=bench.card)


def settle() -> None:
    """Between cases: let go of what the last one left, and keep what remains, modules above all,
    out of later collections: with torch loaded each takes a tenth of a second, several times a
    case."""
    gc.collect()
    gc.freeze()


def _by_all(bench: Bench, case: Case, scenario: Scenario) -> Session | TrainingSession:
    """A session of this process; its ranks prepare theirs. On the CPU all that is slow is behind
    the cache's lock, but for cards frameworks build engines that only later processes find."""
    backend = bench.registry.backend(case.backend)
    prepare = _preparing(backend, scenario)

    def session() -> Session | TrainingSession:
        require(backend, lambda: backend.remedy(bench.device))
        if reason := backend.unsupported(bench.device):
            raise UnsupportedError(reason)
        if not bench.settings.run.emulated and (reason := only_emulates(backend, bench.device)):
            raise UnsupportedError(reason)
        bench.progress("preparing")
        return prepare(bench, case)

    return prepared_by_all(bench.ranks, session, in_turn=bench.device.kind != "cpu")


def _preparing(
    backend: Backend, scenario: Scenario
) -> Callable[[Bench, Case], Session | TrainingSession]:
    """How a backend prepares what a scenario needs. Raises UnsupportedError where it does not."""
    if scenario.needs == "inference":
        return lambda bench, case: bench.prepare(case)
    train = backend.prepare_training
    if train is None:
        raise UnsupportedError(f"{backend.name} offers no training, which {scenario.name} needs")
    return lambda bench, case: train(bench.request(case, backend))


@contextmanager
def _out_of_memory_in_words(bench: Bench) -> Iterator[None]:
    """An error of a framework that says that memory ran out is an OutOfMemoryError."""
    try:
        yield
    except BenchrackError:
        raise
    except Exception as error:
        if (reason := _out_of_memory(bench.memory.gauge, error)) is None:
            raise
        raise OutOfMemoryError(reason + _allowed(bench)) from error


def _out_of_memory(gauge: Gauge | None, error: Exception) -> str | None:
    lines = str(error).strip().splitlines() or [""]
    if isinstance(error, MemoryError):
        return ": ".join(filter(None, ["the host ran out of memory", lines[0]]))
    share = None
    with suppress(Exception):  # a card that is lost must not hide the error it caused
        share = peak_share(gauge) if gauge else None
    return lines[0] if ran_out(str(error), share) else None


def _allowed(bench: Bench) -> str:
    """What the user allowed, where that may be what ran out."""
    gib = bench.settings.run.memory_gib
    return f" (memory_gib allows {gib:g} GiB)" if gib and bench.device.kind == "cpu" else ""


def _of_no_model(bench: Bench, scenario: Scenario) -> Engine:
    """What computes where no backend prepared anything, unless the scenario says it itself."""
    return Engine(name=scenario.name, version="", device=str(bench.device), precision="")


def _prepared(
    bench: Bench,
    case: Case,
    session: Session | TrainingSession,
    prepare_s: float,
    first_batch_s: float | None,
) -> Preparation:
    split, loaded = bench.data.split(case), session.loaded
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
