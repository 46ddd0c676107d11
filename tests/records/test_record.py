"""Measurements and outcomes as flat JSON objects, and back."""

from __future__ import annotations

import collections.abc
import dataclasses
import json
import math
import types
import typing

import pytest
from fakes import measurements as made
from fakes.scenarios import SCENARIOS

from benchrack.flattening import flatten, unflatten
from benchrack.records.record import from_record, to_record
from benchrack.statistics.interval import Interval
from benchrack.vocabulary.backends import Engine
from benchrack.vocabulary.results import (
    Footprint,
    Measurement,
    Outcome,
    Power,
    Preparation,
    Surroundings,
    World,
)

CASE = made.case(model="resnet50", backend="pytorch-fp16", batch_size=8, device_count=2)
SAMPLES = (0.1, 0.1 + 2**-54, 1 / 3)
BARE = made.bare(case=CASE, preparation={"prepare_s": 1.5}, seconds_per_batch=SAMPLES)
FULL = made.but(
    BARE,
    engine=Engine(
        name="ONNX Runtime",
        version="1.22.0",
        device="cuda:0",
        precision="fp32",
        threads=4,
        instruction_set="avx512_vnni",
        compute_nodes=53,
        low_precision_nodes=53,
        provider_share=("CPUExecutionProvider=1.0",),
        options=("use_tf32=0", "a=b"),
        deviations=("computes in FP32",),
    ),
    preparation=Preparation(
        prepare_s=2.5,
        first_batch_s=0.5,
        weights_used="random",
        weights_digest="ab",
        trained=True,
        parameters=25_557_032,
        multiply_accumulates=4_089_184_256,
        data_digest="cd",
        data_images=15,
        calibration_images=5,
    ),
    images_per_s=Interval(value=123.4, low=122.0, high=124.5),
    steadiness=made.steady() | {"rounds": 60},
    output_check=made.output_check(images=4, max_relative_error=1e-3, cosine=0.999),
    power=Power(meters=("nvml",), energy_by_device_j=(1.0, 2.0), average_power_w=70.5),
    surroundings=Surroundings(foreign_cpu_share=0.01, other_processes=("process 7",)),
    footprint=Footprint(peak_gib=1.5, batches_gib=0.5, predicted_from=(2, 8)),
    world=World(ranks=2, rank_images_per_s=(61.0, 62.5), skew=0.01, placement=("cpu", "cpu")),
    reasons=("noisy: ±3 %", "throttled: 60 % of the time"),
)
LATENCY = made.latency(
    samples=46, p50=Interval(value=8.1, low=8.0, high=8.2), p90=Interval(value=9)
)
ACCURACY = made.accuracy(
    unreadable=("a.jpg",),
    top1=Interval(value=0.8, low=0.55, high=0.93),
    agreement=Interval(value=1.0),
    logit_cosine=0.9999,
)


def read(flat, samples):
    return from_record(flat, samples, SCENARIOS)


def through_json(measurement):
    flat = json.loads(json.dumps(to_record(measurement), allow_nan=False))
    samples = json.loads(json.dumps(measurement.seconds_per_batch))
    return read(flat, samples)


@pytest.mark.parametrize("measurement", [BARE, FULL, LATENCY, ACCURACY])
def test_a_measurement_survives_json(measurement):
    """Exactly: also floats that differ in their last bit."""
    assert through_json(measurement) == measurement


def test_an_outcome_survives_json():
    outcome = Outcome(case=CASE, status="out-of-memory", reason="4 GiB needed, 2 free")
    assert unflatten(Outcome, json.loads(json.dumps(flatten(outcome)))) == outcome


def test_records_are_flat():
    """JSON scalars and lists of scalars only."""
    scalar = (str, int, float, bool, type(None))
    for value in to_record(FULL).values():
        values = value if isinstance(value, list) else [value]
        assert all(isinstance(v, scalar) for v in values)


def test_keys_read_as_a_schema():
    flat = to_record(FULL)
    assert flat["schema"] == 1
    assert flat["model"] == "resnet50"
    assert flat["images_per_s"] == 123.4
    assert flat["images_per_s_low"] == 122.0
    assert flat["engine_name"] == "ONNX Runtime"
    assert to_record(LATENCY)["latency_p50_ms"] == 8.1
    assert to_record(LATENCY)["latency_p50_ms_high"] == 8.2
    assert to_record(ACCURACY)["accuracy_top1"] == 0.8
    assert flat["output_cosine"] == 0.999
    assert "seconds_per_batch" not in flat


def test_the_verdict_is_in_the_record_in_a_word():
    """It follows from the reasons, and is not read back."""
    spoilt = made.but(FULL, reasons=("noisy: by 9 %",))
    clean = made.but(FULL, reasons=())
    assert to_record(clean)["verdict"] == "valid"
    assert to_record(spoilt)["verdict"] == "not valid"
    assert read({**to_record(spoilt), "verdict": "valid"}, SAMPLES).reasons == spoilt.reasons


def keys(cls, prefix=""):
    """All keys that a class can flatten to, found apart from `flatten`."""
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        if isinstance(hint, types.UnionType):
            hint = next(h for h in typing.get_args(hint) if h is not types.NoneType)
        if typing.get_origin(hint) is collections.abc.Mapping:
            continue  # of the axes that a scenario has for itself
        if dataclasses.is_dataclass(hint):
            yield from keys(hint, prefix + field.metadata.get("prefix", ""))
        elif field.metadata.get("flat", True):
            yield prefix.rstrip("_") if prefix and field.name == "value" else prefix + field.name


@pytest.mark.parametrize("cls", [Measurement, Outcome])
def test_no_two_fields_share_a_key(cls):
    found = list(keys(cls))
    assert sorted(found) == sorted(set(found))


def test_every_key_is_written():
    """A part that is full leaves out none of its keys."""
    wholly = set(keys(Measurement)) - {k for k in keys(Measurement) if "p99" in k or "top5" in k}
    assert wholly <= set(to_record(FULL))


def test_nothing_measured_leaves_no_key():
    flat = to_record(BARE)
    assert not [key for key in flat if key.startswith(("images_per_s", "latency_", "accuracy_"))]
    assert flat["first_batch_s"] is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_becomes_null(value):
    """JSON has no NaN; an optional part whose figure is null was not measured."""
    odd = made.but(
        FULL,
        images_per_s=Interval(value=value, low=1.0, high=2.0),
        power=Power(meters=("nvml",), energy_by_device_j=(1.0, value)),
    )
    text = json.dumps(to_record(odd), allow_nan=False)
    assert json.loads(text)["images_per_s"] is None
    assert json.loads(text)["energy_by_device_j"] == [1.0, None]
    back = read({**json.loads(text), "energy_by_device_j": []}, SAMPLES)
    assert back.result is None
    odd = made.but(ACCURACY, logit_cosine=value)
    assert through_json(odd).result.logit_cosine is None


def test_null_for_a_required_figure_is_nan_again():
    flat = {**to_record(BARE), "prepare_s": None}
    assert math.isnan(read(flat, SAMPLES).preparation.prepare_s)


def test_numpy_scalars_become_json_scalars():
    numpy = pytest.importorskip("numpy")
    odd = made.but(BARE, images_per_s=Interval(value=numpy.float32(0.5), low=numpy.float64("nan")))
    flat = json.loads(json.dumps(to_record(odd), allow_nan=False))
    assert flat["images_per_s"] == 0.5
    assert flat["images_per_s_low"] is None


def test_a_scenario_that_nobody_provides_has_no_result():
    """Its plugin may be elsewhere: what all scenarios have is read all the same."""
    back = read({**to_record(FULL), "scenario": "sightseeing"}, SAMPLES)
    assert back.result is None
    assert back.footprint == FULL.footprint


def test_unknown_keys_of_a_newer_benchrack_are_ignored():
    assert read({**to_record(FULL), "engine_colour": "red"}, SAMPLES) == FULL


def test_absent_optional_keys_take_their_defaults():
    flat = to_record(BARE)
    for key in ("weights_digest", "engine_options", "device_count", "reasons"):
        del flat[key]
    back = read(flat, SAMPLES)
    assert (back.preparation.weights_digest, back.engine.options) == ("", ())
    assert (back.case.device_count, back.reasons) == (1, ())


def test_an_absent_required_key_is_named():
    flat = to_record(BARE)
    del flat["engine_version"]
    with pytest.raises(KeyError, match="engine_version"):
        read(flat, SAMPLES)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("batch_size", "8"),
        ("batch_size", True),
        ("batch_size", None),
        ("images_per_s", "fast"),
        ("reasons", ["noisy", 3]),
        ("trained", 1),
    ],
)
def test_a_value_of_another_type_is_named(key, value):
    with pytest.raises(TypeError, match=key):
        read({**to_record(FULL), key: value}, SAMPLES)


def test_a_whole_number_serves_as_a_figure():
    """JavaScript and jq write 5.0 as 5."""
    back = read({**to_record(BARE), "prepare_s": 5}, SAMPLES)
    assert back.preparation.prepare_s == 5


def test_validity_is_the_absence_of_reasons():
    assert BARE.valid
    assert not FULL.valid
