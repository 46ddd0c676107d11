"""Measurements and results files to make reports of, built by hand."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from fakes import measurements as made

from benchrack.flattening import flatten
from benchrack.records.journal import Header, Journal
from benchrack.records.record import SCHEMA, to_record
from benchrack.reports.records import of_session
from benchrack.statistics.interval import Interval
from benchrack.vocabulary.results import (
    Outcome,
)

R740 = {
    "server": "PowerEdge R740",
    "cards": ["Tesla P4"] * 4,
    "cpu": "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz",
    "node": "rack1",
}
LAPTOP = {"cpu": "AMD Ryzen 7 5800U with Radeon Graphics", "node": "lap"}


def case(model="resnet50", backend="pytorch-fp32", batch_size=1, scenario="throughput", **more):
    return made.case(scenario=scenario, model=model, backend=backend, batch_size=batch_size, **more)


def measured(
    rate=None,
    *,
    p50=None,
    accuracy=None,
    trained=False,
    weights="random",
    case_weights="auto",
    engine="PyTorch",
    device="cpu",
    deviations=(),
    half=0.008,
    transfer="exclude",
    reasons=(),
    samples=(0.01, 0.0101, 0.0099),
    **axes,
):
    """A measurement of a rate (images/s), of a latency (p50 in ms), or of an accuracy."""
    common = {
        **{"model": "resnet50", "backend": "pytorch-fp32", "batch_size": 1} | axes,
        "weights": case_weights,
        "engine": {"name": engine, "version": "1", "device": device, "deviations": deviations},
        "preparation": {
            "trained": trained,
            "weights_used": weights,
            "data_used": "sample-photos",
        },
        "seconds_per_batch": samples,
        "steadiness": made.steady() | {"transfer": transfer},
        "reasons": reasons,
    }
    if rate is not None:
        found = rate and Interval(value=rate, low=rate * (1 - half), high=rate * (1 + half))
        return made.throughput(images_per_s=found, **common)
    if p50 is not None:
        return made.latency(p50=Interval(value=p50, low=p50 * 0.99, high=p50 * 1.01), **common)
    return made.accuracy(**accuracy or {}, **common)


def shares(images=15, top1=0.8, **more):
    """What a measurement of an accuracy has: the images, and the shares of them."""
    return {"images": images, "top1": top1 and Interval(value=top1, low=0.548, high=0.93), **more}


def missed(status, reason, scenario="throughput", **axes):
    return Outcome(case=case(scenario=scenario, **axes), status=status, reason=reason)


def document(
    measurements,
    outcomes=(),
    *,
    run="r1",
    started="2026-11-30T10:00:00Z",
    machine=R740,
    resumes=(),
    nodes=(),
    settings=None,
):
    """What pytest-benchmark and Benchrack's plugin write together."""
    return {
        "machine_info": {"node": "elsewhere", "cpu": {"brand_raw": "Somebody Xeon CPU @ 2GHz"}},
        "commit_info": {"id": "unversioned"},
        "benchmarks": [
            {
                "name": f"test_{m.case.scenario}[{m.case.id}]",
                "extra_info": {"benchrack": to_record(m)},
                "stats": {"data": list(m.seconds_per_batch)},
            }
            for m in measurements
        ],
        "datetime": "2026-11-30T10:30:00+00:00",
        "version": "5.3.1",
        "benchrack": {
            "schema": SCHEMA,
            "run": run,
            "started": started,
            "command": ["pytest"],
            "machine": machine,
            "resumes": list(resumes),
            "nodes": list(nodes),
            "settings": settings or {},
            "outcomes": [flatten(o) for o in outcomes],
        },
    }


@pytest.fixture(scope="session")
def make():
    """The functions and machines above."""
    return SimpleNamespace(
        case=case, measured=measured, missed=missed, shares=shares, R740=R740, LAPTOP=LAPTOP
    )


@pytest.fixture
def session(tmp_path):
    """The results of one run on one machine."""

    def build(measurements, outcomes=(), machine=R740):
        header = Header(run="r1", started="2026-11-30T10:00:00Z", machine=machine)
        return of_session(header, measurements, outcomes, tmp_path / "r1.json")

    return build


@pytest.fixture
def write_json(tmp_path):
    def write(name, measurements, outcomes=(), **header):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document(measurements, outcomes, **header)))
        return path

    return write


@pytest.fixture
def write_journal(tmp_path):
    def write(
        name, measurements, outcomes=(), *, run="r1", started="2026-11-30T10:00:00Z", machine=R740
    ):
        header = Header(run=run, started=started, command=("pytest",), machine=machine)
        path = tmp_path / name
        journal = Journal.create(path, header)
        for measurement in measurements:
            journal.append_measurement(measurement, measurement.case.id)
        for outcome in outcomes:
            journal.append_outcome(outcome, outcome.case.id)
        journal.close()
        return path

    return write
