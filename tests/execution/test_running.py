"""One case from preparation to measurement, on a fake device whose speed is known."""

import dataclasses
import gc
import weakref

import numpy as np
import pytest
from fakes import laboratory as lab, measurements as made
from fakes.scenarios import SCENARIOS

from benchrack.data import opened
from benchrack.errors import CorruptImageError, OutOfMemoryError, UnsupportedError
from benchrack.execution.running import run_case, settle
from benchrack.records.record import from_record, to_record


def case(scenario="throughput", **changes):
    return made.case(scenario=scenario, **changes)


@pytest.fixture
def clock():
    return lab.Clock()


@pytest.fixture
def bench(tmp_path, clock):
    return lab.bench(tmp_path, lab.backend(clock=clock), clock=clock, time_limit_s=5)


def test_throughput_is_images_by_seconds(bench):
    found = run_case(bench, case())
    assert found.result.images_per_s.value == pytest.approx(400, rel=0.002)
    assert found.steadiness.warmup_steady
    assert found.steadiness.transfer == "exclude"
    assert found.valid


def test_a_rate_below_the_clock_of_a_round_is_not_rounded(tmp_path, clock):
    slow = lab.backend(clock=clock, cost=lambda index: 1.7)
    bench = lab.bench(tmp_path, slow, clock=clock, time_limit_s=5)
    assert run_case(bench, case()).result.images_per_s.value == pytest.approx(4 / 1.7)


def test_latency_has_only_the_percentiles_that_its_samples_support(bench):
    many = run_case(bench, case("latency")).result
    assert many.samples > 482
    assert many.p50.value == pytest.approx(10)
    assert many.p99.value == pytest.approx(10)
    bench = lab.again(bench, latency_samples=100)
    fewer = run_case(bench, case("latency"))
    assert fewer.result.p90 is not None
    assert fewer.result.p99 is None
    assert fewer.steadiness.transfer == "include"


def test_transfer_can_be_set(bench):
    bench = lab.again(bench, transfer="include")
    assert run_case(bench, case()).steadiness.transfer == "include"


def test_accuracy_is_counted_over_the_measured_pictures(bench):
    found = run_case(bench, case("accuracy", batch_size=25)).result
    assert found.images == 40
    assert found.top1.value == 36 / 40
    assert found.agreement.value == 1
    assert found.top1_drop_points == 0


def test_the_last_batch_is_filled_up_and_its_filling_not_counted(bench):
    sizes = []

    def compute(images, matrix):
        sizes.append(len(images))
        return images.reshape(len(images), -1) @ matrix

    bench = lab.again(bench, registry=lab.registry(lab.backend(clock=bench.clock, compute=compute)))
    assert run_case(bench, case("accuracy", batch_size=25)).result.images == 40
    assert set(sizes) == {25}


def test_accuracy_against_fp32_of_the_same_model(tmp_path, clock):
    """A backend that is wrong about the images of class 0 loses as many points as they are."""

    def compute(images, matrix):
        logits = images.reshape(len(images), -1) @ matrix
        logits[:, 0] -= 1000
        return logits

    exact, worse = lab.backend(clock=clock), lab.backend("worse", clock=clock, compute=compute)
    bench = lab.bench(tmp_path, exact, worse, clock=clock)
    reference = run_case(bench, case("accuracy")).result
    found = run_case(bench, case("accuracy", backend="worse")).result
    assert found.reference_top1 == reference.top1.value
    assert found.top1_drop_points == pytest.approx(100 * (reference.top1.value - found.top1.value))
    assert found.agreement.value < 1
    assert found.logit_cosine < 1


def test_untrained_weights_give_no_accuracy(bench):
    found = run_case(bench, case("accuracy", weights="random")).result
    assert found.top1 is None
    assert found.agreement.value == 1


def test_an_unreadable_picture_is_named_and_the_others_measured(tmp_path, clock):
    def unreadable():
        raise CorruptImageError("square-3.jpg is truncated")

    def open_damaged(argument, settings):
        split = lab.open_squares(argument, settings)
        samples = list(split.measured)
        samples[3] = dataclasses.replace(samples[3], read=unreadable)
        return dataclasses.replace(split, measured=samples)

    bench = lab.bench(tmp_path, lab.backend(clock=clock), clock=clock)
    damaged = dataclasses.replace(lab.DATASET, open=open_damaged)
    bench = lab.again(bench, registry=lab.registry(lab.backend(clock=clock), datasets=(damaged,)))
    found = run_case(bench, case("accuracy")).result
    assert found.images == 39
    assert found.unreadable == ("square-3",)


def test_evaluation_images_limits_what_is_measured(bench):
    bench = lab.again(bench, evaluation_images=10)
    assert run_case(bench, case("accuracy")).result.images == 10


def test_outputs_are_checked_against_the_reference(tmp_path, clock):
    half = lab.backend("half", clock=clock, compute=lambda x, m: 0.5 * (x.reshape(len(x), -1) @ m))
    bench = lab.bench(tmp_path, lab.backend(clock=clock), half, clock=clock, time_limit_s=1)
    good = run_case(bench, case()).output_check
    assert good.max_relative_error < 1e-6
    assert good.input_spread > 0.01
    bad = run_case(bench, case(backend="half")).output_check
    assert bad.max_relative_error == pytest.approx(0.5)
    assert bad.cosine == pytest.approx(1)
    assert bad.reference == "numpy-fp32"


def test_a_reference_in_other_arithmetic_is_not_the_same_reference(tmp_path, clock):
    """As of FP32 that the environment lets a library round: it is kept under another key."""

    def reference(runs_as, factor):
        made = lab.backend(clock=clock, compute=lambda x, m: factor * (x.reshape(len(x), -1) @ m))
        return dataclasses.replace(made, runs_as=lambda device: runs_as)

    tested = lab.backend("tested", clock=clock)
    for runs_as, factor, error in (("rounded", 1.25, 0.2), ("exact", 1.0, 0.0)):
        bench = lab.bench(tmp_path, reference(runs_as, factor), tested, clock=clock, time_limit_s=1)
        check = run_case(bench, case(backend="tested")).output_check
        assert check.max_relative_error == pytest.approx(error, abs=1e-6)


def test_batches_differ_and_rotate_through_all_inputs(bench):
    seen = set()

    def compute(images, matrix):
        seen.add(images.tobytes())
        assert len({image.tobytes() for image in images}) == len(images)
        return images.reshape(len(images), -1) @ matrix

    bench = lab.again(bench, registry=lab.registry(lab.backend(clock=bench.clock, compute=compute)))
    found = run_case(bench, case())
    assert found.steadiness.distinct_batches > 10
    assert len(seen) >= 100


def test_inputs_outgrow_the_cache(bench, monkeypatch):
    monkeypatch.setattr(opened, "last_level_cache_bytes", lambda: 100_000)
    pool = bench.data.distinct_inputs(case())
    assert pool.nbytes == pytest.approx(200_000, abs=pool[0].nbytes)
    assert len({image.tobytes() for image in pool}) == len(pool)


def test_of_a_cache_that_nobody_knows_inputs_are_as_many_as_allowed(bench, monkeypatch):
    """Where the kernel does not tell its size, as where it is larger than `inputs_mib` allows."""
    pools = []
    for cache_bytes in (0, 2**30):
        monkeypatch.setattr(opened, "last_level_cache_bytes", lambda n=cache_bytes: n)
        bench = lab.again(bench)
        pools.append(bench.data.distinct_inputs(case()))
    assert len(pools[0]) == len(pools[1]) > 500


def test_the_first_batch_is_the_first_of_its_size(tmp_path, clock):
    """What compiles and tunes then is not warm from a check of the outputs."""
    cost = lambda index: 2.0 if index == 0 else 0.010  # noqa: E731
    bench = lab.bench(tmp_path, lab.backend(clock=clock, cost=cost), clock=clock, time_limit_s=1)
    for scenario in ("throughput", "latency"):
        found = run_case(bench, case(scenario))
        assert found.preparation.first_batch_s == pytest.approx(2.0)
        assert found.output_check is not None


def test_unsupported_devices_are_a_reason_not_an_error(bench):
    refusing = lab.backend(unsupported=lambda device: f"{device} is too old")
    bench = lab.again(bench, registry=lab.registry(refusing))
    with pytest.raises(UnsupportedError, match="cpu is too old"):
        run_case(bench, case())


def test_what_is_only_emulated_is_skipped_unless_it_is_asked_for(bench):
    slow = dataclasses.replace(lab.backend(clock=bench.clock), emulates=lambda device: "no FP16")
    bench = lab.again(bench, registry=lab.registry(slow))
    with pytest.raises(UnsupportedError, match=r"^no FP16 \(--set emulated=true measures it"):
        run_case(bench, case())
    assert run_case(lab.again(bench, emulated=True), case()).result.images_per_s.value > 0


def test_several_devices_are_not_measured_on_one(bench):
    with pytest.raises(UnsupportedError, match="4 devices"):
        run_case(bench, case(device_count=4))


def test_missing_packages_are_named_with_the_command_that_brings_them(bench):
    absent = dataclasses.replace(lab.backend(), requires=("no_such_module",), extra="pytorch")
    bench = lab.again(bench, registry=lab.registry(absent))
    with pytest.raises(
        UnsupportedError, match=r"no_such_module: pip install 'benchrack\[pytorch\]'"
    ):
        run_case(bench, case())


def test_a_host_out_of_memory_is_out_of_memory(bench):
    def compute(images, matrix):
        raise MemoryError("20 GiB")

    bench = lab.again(bench, registry=lab.registry(lab.backend(compute=compute)))
    with pytest.raises(OutOfMemoryError, match="20 GiB"):
        run_case(bench, case("accuracy"))


def test_where_the_user_limits_memory_the_reason_says_so(bench):
    bench = lab.again(bench, memory_gib=0.5)

    def prepare(request):
        raise MemoryError

    backend = dataclasses.replace(lab.backend(), prepare=prepare)
    bench = lab.again(bench, registry=lab.registry(backend))
    with pytest.raises(OutOfMemoryError) as raised:
        run_case(bench, case())
    assert str(raised.value) == "the host ran out of memory (memory_gib allows 0.5 GiB)"


def test_a_session_is_closed_whatever_happens(bench):
    sessions = []

    def compute(images, matrix):
        raise RuntimeError("kernel launch failed")

    backend = lab.backend(compute=compute)

    def prepare(request):
        sessions.append(backend.prepare(request))
        return sessions[-1]

    bench = lab.again(bench, registry=lab.registry(dataclasses.replace(backend, prepare=prepare)))
    with pytest.raises(RuntimeError, match="kernel launch failed"):
        run_case(bench, case())
    assert all(session.closed for session in sessions)


def test_a_measurement_survives_the_way_through_json(bench):
    for scenario in ("throughput", "latency", "accuracy"):
        found = run_case(bench, case(scenario))
        flat = to_record(found)
        assert all(
            value is None or isinstance(value, bool | int | float | str | list)
            for value in flat.values()
        )
        assert from_record(flat, found.seconds_per_batch, SCENARIOS) == found


def test_reference_outputs_are_made_once(tmp_path, clock):
    prepared = []
    plain = lab.backend(clock=clock)

    def prepare(request):
        prepared.append(request.model.name)
        return plain.prepare(request)

    counting = dataclasses.replace(plain, prepare=prepare)
    bench = lab.bench(tmp_path, counting, lab.backend("other", clock=clock), clock=clock)
    run_case(bench, case(backend="other"))
    run_case(bench, case(backend="other", batch_size=8))
    run_case(bench, case("latency", backend="other", batch_size=1))
    assert prepared == ["matrix"]


def test_placed_inputs_are_the_sessions_own(bench):
    """A backend that overwrites what it was given must not spoil the next case's inputs."""
    before = bench.data.distinct_inputs(case()).copy()

    def compute(images, matrix):
        result = images.reshape(len(images), -1) @ matrix
        images[:] = 0
        return result

    bench = lab.again(bench, registry=lab.registry(lab.backend(clock=bench.clock, compute=compute)))
    run_case(bench, case())
    assert np.array_equal(bench.data.distinct_inputs(case()), before)


class Ring:
    """Garbage that counting references does not find."""

    def __init__(self):
        self.me = self


def test_between_cases_garbage_goes_and_what_is_left_is_collected_no_more():
    ring = Ring()
    seen, kept = weakref.ref(ring), [Ring()]
    del ring
    try:
        settle()
        assert seen() is None
        assert not any(found is kept for found in gc.get_objects())
    finally:
        gc.unfreeze()
    assert any(found is kept for found in gc.get_objects())
