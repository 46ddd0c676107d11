"""What a sweep still takes: learnt from what its cases took, by model, backend and batch."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from fakes import measurements as made
from fakes.scenarios import SCENARIOS
from fakes.settings import make_settings

from benchrack.cases.eta import Eta, in_words
from benchrack.errors import UnsupportedError
from benchrack.execution.progress import position

LIMITS = make_settings(round_s=0.05, warmup_limit_s=5, time_limit_s=3, latency_samples=1000)


def case(model="alexnet", backend="fp32", batch=1, **axes):
    return made.case(model=model, backend=backend, batch_size=batch, **axes)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def eta():
    return Eta(LIMITS, SCENARIOS, lambda case: 1000)


def fed(eta, case, seconds=10.0, prepare_s=2.0, batch_s=0.01):
    eta.done(case, seconds, prepare_s=prepare_s, batch_s=batch_s)


def test_nothing_is_said_before_the_first_case_is_done(eta):
    assert eta.left_s([case()]) is None
    assert eta.countdown(case(), [case(batch=8)])() is None
    fed(eta, case())
    assert eta.left_s([]) == 0


def test_another_start_of_a_case_takes_what_it_took(eta):
    fed(eta, case(), seconds=7)
    fed(eta, case("vgg16"), seconds=70)
    assert eta.left_s([case(), case(), case("vgg16")]) == pytest.approx(7 + 7 + 70)


def test_a_model_that_was_not_run_yet_is_known_by_its_operations():
    """VGG-16 has 3.8 times ResNet-50's operations: batches of 0.5 s become such of 1.9 s."""
    known = {"resnet50": 4_089_184_256, "vgg16": 15_470_264_320}
    estimates = []
    for operations in (known.get, lambda model: None):
        eta = Eta(LIMITS, SCENARIOS, lambda case: 1000, operations)
        fed(eta, case("resnet50", batch=64), seconds=12, prepare_s=2, batch_s=0.5)
        estimates.append(eta.left_s([case("vgg16", batch=64)]))
    assert estimates[0] > 1.5 * estimates[1]
    assert estimates[1] == pytest.approx(12)


def test_a_larger_batch_takes_no_longer_within_the_time_limits(eta):
    """Batches of 80 ms still fit: 12 windows of warm-up and 3 s of rounds."""
    fed(eta, case(), seconds=6, prepare_s=2, batch_s=0.01)
    assert 6 <= eta.left_s([case(batch=8)]) < 7


def test_a_batch_longer_than_the_limits_is_waited_for(eta):
    """64 images at 1 s are at least a batch to check, one to warm up twice, and three rounds."""
    fed(eta, case(), seconds=2 + 8, prepare_s=2, batch_s=1.0)
    left = eta.left_s([case(batch=64)])
    assert 6 * 64 * 0.7 < left < 8 * 64


def test_the_limits_bound_what_is_limited_by_time(eta):
    """A batch that is no longer than a round costs at most warm-up and time limit, and a little."""
    fed(eta, case(), seconds=2 + 3.6, prepare_s=2, batch_s=0.001)
    limits = LIMITS.measure
    assert eta.left_s([case(batch=32)]) - 2 <= limits.warmup_limit_s + limits.time_limit_s


def test_preparation_is_of_the_model_and_backend_then_of_the_backend(eta):
    fed(eta, case("alexnet", "int8"), seconds=60 + 4, prepare_s=60)
    fed(eta, case("alexnet", "fp32"), seconds=1 + 4, prepare_s=1)
    assert eta.left_s([case("resnet50", "int8")]) > 60
    assert eta.left_s([case("resnet50", "fp32")]) < 15
    fed(eta, case("alexnet", "int8", batch=8), seconds=2 + 4, prepare_s=2)  # from the cache
    assert eta.left_s([case("alexnet", "int8", batch=4)]) < 10


def test_precisions_differ_as_on_other_models(eta):
    """INT8 took a quarter of FP32's time on one model, and so it does on the next."""
    eta.settings = make_settings(LIMITS, warmup_limit_s=1e6, time_limit_s=0)
    fed(eta, case("alexnet", "fp32", 64), seconds=170, prepare_s=0, batch_s=10.0)
    fed(eta, case("alexnet", "int8", 64), seconds=42.5, prepare_s=0, batch_s=2.5)
    fed(eta, case("vgg16", "fp32", 64), seconds=1700, prepare_s=0, batch_s=100.0)
    assert eta.left_s([case("vgg16", "int8", 64)]) == pytest.approx(425, rel=0.01)


def test_a_model_never_seen_takes_the_mean_of_the_others(eta):
    eta.settings = make_settings(LIMITS, warmup_limit_s=1e6, time_limit_s=0)
    fed(eta, case("alexnet"), seconds=17, prepare_s=0, batch_s=1.0)
    fed(eta, case("vgg16"), seconds=51, prepare_s=0, batch_s=3.0)
    assert eta.left_s([case("resnet50")]) == pytest.approx(34, rel=0.01)


def test_a_large_model_weighs_more_than_a_small_one_not_one_case_each(eta):
    """Two of four cases are done in 20 s, but what is left is the same model at a large batch."""
    fed(eta, case("alexnet"), seconds=5, batch_s=0.01)
    fed(eta, case("vgg16"), seconds=15, batch_s=1.0)
    assert eta.left_s([case("alexnet", batch=64), case("vgg16", batch=64)]) > 200


def test_latency_ends_with_its_samples(eta):
    """1000 samples at 1 ms are done in a second; at 1 s the time limit ends them."""
    fed(eta, case(scenario="latency"), seconds=1.602, prepare_s=0, batch_s=0.001)
    assert eta.left_s([case(scenario="latency")]) == pytest.approx(1.602)
    slow = Eta(LIMITS, SCENARIOS, lambda case: 1000)
    fed(slow, case(), seconds=10, prepare_s=0, batch_s=1.0)
    assert slow.left_s([case(scenario="latency")]) < 12


def test_accuracy_takes_every_picture_whatever_the_time_limit():
    many = Eta(LIMITS, SCENARIOS, lambda case: 50_000)
    fed(many, case(batch=25), seconds=10, prepare_s=0, batch_s=0.25)
    assert many.left_s([case(batch=25, scenario="accuracy")]) == pytest.approx(500)
    few = Eta(make_settings(LIMITS, evaluation_images=100), SCENARIOS, lambda case: 50_000)
    fed(few, case(batch=25), seconds=10, prepare_s=0, batch_s=0.25)
    assert few.left_s([case(batch=25, scenario="accuracy")]) == pytest.approx(1)


def test_what_stops_early_makes_the_others_cheaper(eta):
    fed(eta, case(), seconds=3.6, prepare_s=0, batch_s=0.001)
    whole = eta.left_s([case("vgg16")])
    for model in ("googlenet", "resnet18", "resnet50"):  # a quiet machine: ±1 % after a second
        fed(eta, case(model), seconds=1.8, prepare_s=0, batch_s=0.001)
    assert eta.left_s([case("vgg16")]) < 0.6 * whole


def test_a_backend_that_can_not_run_here_costs_nothing(eta):
    def refuse():
        raise UnsupportedError("no card")

    fed(eta, case())
    with pytest.raises(UnsupportedError):
        eta.timed(case(backend="tf32"), refuse)
    assert eta.left_s([case("vgg16", "tf32"), case("resnet50", "tf32")]) == 0
    assert eta.left_s([case(backend="tf32", device_count=2)]) > 0
    fed(eta, case("digits", "tf32"))  # it was that model alone
    assert eta.left_s([case("vgg16", "tf32")]) > 0


def test_a_case_is_timed_while_it_is_measured(eta):
    clock = Clock()
    found = SimpleNamespace(
        seconds_per_batch=(0.01, 0.01, 0.5), preparation=SimpleNamespace(prepare_s=2.0)
    )

    def measure():
        clock.now += 9
        return found

    assert eta.timed(case(), measure, clock) is found
    assert eta.left_s([case()]) == 9


def test_a_countdown_only_subtracts(eta):
    """What a case took longer than expected is not taken from those that wait."""
    fed(eta, case(), seconds=8)
    fed(eta, case("vgg16"), seconds=20)
    clock = Clock()
    left_s = eta.countdown(case(), [case("vgg16")], clock)
    assert left_s() == pytest.approx(28)
    clock.now += 5
    assert left_s() == pytest.approx(23)
    clock.now += 60
    assert left_s() == pytest.approx(20)


@pytest.mark.parametrize("seconds", [0, 1e-9])
def test_times_of_nothing_are_no_error(eta, seconds):
    """As on a clock that stands still."""
    fed(eta, case(), seconds=seconds, prepare_s=0, batch_s=0)
    fed(eta, case(scenario="accuracy"), seconds=seconds, prepare_s=0, batch_s=0)
    fed(eta, case(backend="int8"), seconds=seconds, prepare_s=0, batch_s=0)
    waiting = [case("vgg16", "int8", 8), case("alexnet", "int8"), case(scenario="accuracy")]
    assert eta.left_s(waiting) >= 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "10 s"),
        (34, "40 s"),
        (50, "50 s"),
        (51, "1 min"),
        (150, "2 min"),
        (3600, "60 min"),
        (5400, "1.5 h"),
        (36000, "10 h"),
    ],
)
def test_durations_are_rough(seconds, words):
    assert in_words(seconds) == words


def test_a_position_has_its_number_and_what_is_left():
    assert position(7, 33, 130.0) == "7 of 33, about 2 min left"
    assert position(1, 33, None) == "1 of 33"
    assert re.fullmatch(r"33 of 33, about \d+ s left", position(33, 33, 0.0))
