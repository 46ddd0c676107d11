"""Each rule of the verdict on records made by hand; docs/measurement.md names all of them."""

import dataclasses
import math
import re
from pathlib import Path

import pytest
from fakes import measurements as made
from fakes.scenarios import SCENARIOS
from fakes.settings import make_settings

from benchrack.flattening import flatten
from benchrack.statistics.interval import Interval
from benchrack.verdict import rules
from benchrack.verdict.peak import share_of_peak
from benchrack.verdict.rules import HARMLESS_THROTTLING, RULES
from benchrack.verdict.tolerances import TOLERANCES
from benchrack.vocabulary.descriptors import Accelerator, Cited
from benchrack.vocabulary.results import (
    OF_ENERGY,
    Power,
    Surroundings,
)
from benchrack.vocabulary.scenarios import Yardstick
from benchrack.vocabulary.settings import keys


def judge(measurement, settings, card=None):
    scenario = SCENARIOS[measurement.case.scenario]
    return rules.judge(measurement, Yardstick(settings=settings, scenario=scenario, card=card))


DOCS = Path(__file__).parents[2] / "docs/measurement.md"
LIMITS = [key for key in keys() if key.startswith("limit_")]
CARD = Accelerator(
    name="card",
    title="A Card",
    vendor="us",
    device_names=Cited(("Card",), "made up", "A"),
    figures={
        "base_clock_mhz": Cited(1000, "made up", "A"),
        "fp32_tflops": Cited(10, "made up", "A"),
        "int8_tops": Cited(40, "made up", "A"),
    },
)
VALID = made.throughput(
    batch_size=8,
    engine={"device": "Card", "precision": "fp32"},
    preparation={"asked_precision": "fp32", "multiply_accumulates": 10**9},
    seconds_per_batch=(0.01, 0.0101, 0.0099) * 10,
    images_per_s=Interval(value=800, low=795, high=805),
    steadiness={"rounds": 30, "coefficient_of_variation": 0.01, "unsynchronised_share": 0.0},
    output_check=made.output_check(reference="ref"),
    power=Power(
        meters=("nvml",),
        energy_window_s=2,
        energy_window_minimum_s=1,
        energy_window_too_short=False,
        sm_clock_mhz_median=990,
    ),
    surroundings=Surroundings(
        foreign_cpu_share=0.01, foreign_cpu_resolution=0.001, threads_used=2, usable_cores=2
    ),
)
LATENCY = made.latency(
    case=made.case(scenario="latency", batch_size=8),
    engine=VALID.engine,
    preparation=VALID.preparation,
    seconds_per_batch=VALID.seconds_per_batch,
    samples=30,
    output_check=VALID.output_check,
    power=VALID.power,
    surroundings=VALID.surroundings,
)


def but(measurement=VALID, **changes):
    """A clean measurement, but for these: `but(power={"energy_window_s": 1})`."""
    return made.but(measurement, **changes)


def reason(measurement, card=CARD, **settings):
    """The only reason against a measurement, or None."""
    reasons = judge(measurement, make_settings(**settings), card)
    assert len(reasons) <= 1, reasons
    return reasons[0] if reasons else None


@pytest.mark.parametrize("measurement", [VALID, LATENCY], ids=["throughput", "latency"])
def test_nothing_is_said_against_a_clean_record(measurement):
    assert judge(measurement, make_settings(), CARD) == ()
    assert judge(measurement, make_settings(), None) == ()


def test_nothing_is_held_against_what_was_not_measured():
    bare = made.bare(engine=VALID.engine, seconds_per_batch=(0.01,))
    assert judge(bare, make_settings(), CARD) == ()


def test_a_reason_begins_with_its_rule():
    spoilt = but(steadiness={"warmup_steady": False}, surroundings={"foreign_cpu_share": 0.5})
    reasons = judge(spoilt, make_settings(), CARD)
    assert [text.partition(": ")[0] for text in reasons] == ["not-steady", "cpu-contention"]


# not-steady, noisy, unsynchronised ---------------------------------------------------------------


def test_warm_up_without_a_steady_state():
    assert reason(but(steadiness={"warmup_steady": False, "warmup_s": 10.02})) == (
        "not-steady: no steady state was seen in 10 s of warm-up"
    )


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        (40, ", 40 windows"),
        (4, ": 6 windows are needed, and 4 fit in (a larger warmup_limit_s helps)"),
    ],
)
def test_a_warm_up_that_was_too_short_to_tell_names_the_key_that_helps(windows, said):
    steadiness = {"warmup_steady": False, "warmup_s": 10.02}
    seen = {"warmup_windows": windows, "warmup_windows_needed": 6}
    expected = f"not-steady: no steady state was seen in 10 s of warm-up{said}"
    assert reason(but(steadiness=steadiness | seen)) == expected


@pytest.mark.parametrize("measurement", [VALID, LATENCY], ids=["throughput", "latency"])
@pytest.mark.parametrize(("sign", "word"), [(1, "longer"), (-1, "less")])
def test_a_drift_while_measuring(measurement, sign, word):
    samples = tuple(0.01 * (1 + sign * 0.005 * i) for i in range(30))
    found = reason(but(measurement, seconds_per_batch=samples))
    assert re.fullmatch(rf"not-steady: the last third took \d+\.\d% {word} than .* 5.0%\)", found)
    assert reason(but(measurement, seconds_per_batch=samples), limit_drift=0.2) is None


def test_a_drift_explains_a_wide_interval():
    samples = tuple(0.01 * (1 + 0.02 * i) for i in range(30))
    drifting = but(
        seconds_per_batch=samples,
        images_per_s=Interval(value=800, low=600, high=1000),
        steadiness={"coefficient_of_variation": 0.2},
    )
    assert reason(drifting).startswith("not-steady: ")


def test_rounds_that_vary():
    noisy = but(steadiness={"coefficient_of_variation": 0.12})
    assert reason(noisy) == "noisy: rounds vary by 12.0% (limit 10.0%)"
    assert reason(noisy, limit_variation=0.2) is None


@pytest.mark.parametrize(("low", "high"), [(752, 805), (795, 848)])
def test_a_wide_interval(low, high):
    wide = but(images_per_s=Interval(value=800, low=low, high=high))
    assert reason(wide) == "noisy: known to ±6.0% only (limit ±5.0%)"
    assert reason(wide, limit_interval=0.1) is None


def test_an_interval_that_could_not_be_had():
    few = but(images_per_s=800, seconds_per_batch=(0.01,) * 3)
    assert reason(few) == "noisy: 3 rounds are too few, or too correlated, for an interval"
    single = but(LATENCY, samples=2, p50=None, seconds_per_batch=(0.01,) * 2)
    assert reason(single) == "noisy: 2 samples are too few, or too correlated, for an interval"


def test_rounds_that_are_not_independent_are_a_reason_when_publishing():
    """Their interval is none: elsewhere the tables say so, and nothing is held against the row."""
    correlated = but(steadiness={"independent": False})
    assert reason(correlated) is None
    assert reason(correlated, publish=True) == (
        "noisy: rounds are too few, or too correlated, to be independent in blocks"
    )
    assert reason(but(steadiness={"independent": True}), publish=True) is None


def test_a_wide_interval_of_latency():
    wide = but(LATENCY, p50=Interval(value=10, low=9, high=10.1))
    assert reason(wide) == "noisy: known to ±10.0% only (limit ±5.0%)"


def test_work_that_was_not_waited_for():
    early = but(steadiness={"unsynchronised_share": 0.9})
    assert reason(early) == (
        "unsynchronised: 90% of a batch's time passed after the session said that it was done "
        "(limit 10%)"
    )
    assert reason(early, limit_unsynchronised=0.95) is None


# fell-back, unfused-int8 -------------------------------------------------------------------------


def test_what_a_backend_says_of_itself():
    assert reason(but(engine={"deviations": ("a", "b")})) == "fell-back: a; b"


def test_another_precision_than_was_asked_for():
    found = reason(but(engine={"precision": "tf32"}))
    assert found == "fell-back: fp32 was asked for, and tf32 was computed"


def test_the_cpu_where_a_card_was_asked_for():
    on_cpu = but(engine={"device": "cpu"})
    assert reason(on_cpu) == "fell-back: A Card was asked for, and the CPU computed"
    assert reason(on_cpu, card=None) is None


def int8(done, total=53, **engine):
    nodes = {"low_precision_nodes": done, "compute_nodes": total, "precision": "int8"}
    return but(engine=nodes | engine, preparation={"asked_precision": "int8"})


def test_int8_that_is_partly_float():
    unfused = int8(33, precision="int8 (33), fp32 (20)")
    expected = "unfused-int8: 33 of 53 convolutions and matrix products ran in INT8"
    assert reason(unfused) == expected
    assert (
        reason(but(unfused, engine={"deviations": ("20 of 53 did not run in INT8",)})) == expected
    )
    assert reason(unfused, limit_int8_share=0.6) is None
    assert reason(int8(53)) is None


def test_int8_of_which_nothing_is_int8_fell_back():
    none = int8(0, precision="fp32", deviations=("53 of 53 did not run in INT8",))
    assert reason(none) == "fell-back: 53 of 53 did not run in INT8"
    assert reason(int8(0, precision="fp32")).startswith("fell-back: int8 was asked for")


def test_int8_that_is_partly_float_and_ran_elsewhere():
    both = int8(33, deviations=("20 of 53 ran outside TensorRT", "20 of 53 did not run in INT8"))
    found = judge(both, make_settings(), CARD)
    assert [text.partition(":")[0] for text in found] == ["fell-back", "unfused-int8"]


# output-mismatch ---------------------------------------------------------------------------------


# Errors and 1 − cosine of real sessions on a CPU against pytorch-fp32, the worst and the best of
# five networks (docs/measurement.md).
MEASURED = {
    "fp32 on another engine": (1.04e-5, 1.9e-11),
    "fp32 by Winograd's convolutions": (2.47e-5, 4.2e-11),
    "rounded to TF32, best": (1.0e-3, 1.5e-7),
    "rounded to TF32, worst": (1.4e-2, 2.6e-5),
    "fp16, worst": (1.45e-2, 3.8e-5),
    "bf16, best": (1.3e-2, 5.3e-5),
    "bf16, worst": (1.37e-1, 1.9e-3),
    "int8, worst": (7.0e-1, 2.1e-2),
}


@pytest.mark.parametrize(
    ("asked", "ran"),
    [
        ("fp32", "fp32 on another engine"),
        ("fp32", "fp32 by Winograd's convolutions"),
        ("tf32", "rounded to TF32, worst"),
        ("fp16", "fp16, worst"),
        ("bf16", "bf16, worst"),
        ("int8", "int8, worst"),
        ("fp8", "bf16, worst"),
    ],
)
def test_what_a_precision_really_costs_is_tolerated(asked, ran):
    assert reason(computed(asked, *MEASURED[ran])) is None


@pytest.mark.parametrize("ran", ["rounded to TF32, best", "bf16, best", "int8, worst"])
def test_fp32_is_told_from_all_below_it(ran):
    assert reason(computed("fp32", *MEASURED[ran])).startswith("output-mismatch: largest error")


def test_int8_is_told_from_fp16():
    assert reason(computed("fp16", *MEASURED["int8, worst"])).startswith("output-mismatch: ")


@pytest.mark.parametrize(("error", "distance"), [(1e-3, 0.0), (0.0, 1e-6)])
def test_either_tolerance_is_enough(error, distance):
    found = reason(computed("fp32", error, distance))
    assert found.startswith("output-mismatch: largest error")
    assert found.endswith("against ref")
    assert reason(computed("fp32", error, distance), limit_output_error=200) is None


def computed(asked, error, distance):
    return but(
        engine={"precision": asked},
        preparation={"asked_precision": asked},
        output_check={"max_relative_error": error, "cosine": 1 - distance},
    )


def test_outputs_that_do_not_differ_between_inputs():
    """Whatever they are compared with: the reference may be as broken."""
    same = but(output_check={"input_spread": 1e-6, "max_relative_error": 0.0})
    assert "of different inputs differ by 1e-06" in reason(same)
    assert reason(same, limit_spread=0.0) is None


@pytest.mark.parametrize("error", [math.inf, math.nan])
def test_outputs_that_are_not_numbers(error):
    broken = but(output_check={"max_relative_error": error, "cosine": 0.0, "input_spread": 0.0})
    assert reason(broken) == "output-mismatch: outputs are not finite numbers"


def test_accuracy_is_judged_by_the_cosine_over_all_pictures():
    accuracy = but(
        scenario="accuracy",
        images=20,
        logit_cosine=0.9999,
        **dict.fromkeys(("steadiness", "output_check", "power", "surroundings")),
    )
    assert reason(accuracy).startswith("output-mismatch: 1 − cosine 0.0001 (tolerance 1e-08)")
    assert reason(but(accuracy, logit_cosine=1.0)) is None


def test_tolerances_grow_as_mantissas_shrink():
    order = [TOLERANCES[name] for name in ("fp64", "fp32", "tf32", "fp16", "bf16", "int8")]
    assert order == sorted(order)


# throttled, shared-device, cpu-contention, oversubscribed-cpu -------------------------------------


def test_throttle_reasons():
    hot = but(power={"throttle_reasons": ("sw_power_cap", "hw_thermal_slowdown", "hw_slowdown")})
    assert reason(hot) == "throttled: hw_thermal_slowdown, hw_slowdown"
    assert reason(but(power={"throttle_reasons": tuple(HARMLESS_THROTTLING)})) is None


def test_clocks_below_a_share_of_the_base_clock():
    slow = but(power={"sm_clock_mhz_median": 740})
    assert reason(slow) == ("throttled: the card ran at 740 MHz, 74% of its base clock (limit 75%)")
    assert reason(slow, limit_clock_share=0.7) is None
    assert reason(slow, card=None) is None
    assert reason(but(power={"sm_clock_mhz_median": 750})) is None


def test_other_processes_on_the_card():
    shared = but(surroundings={"other_processes": ("process 7", "process 9")})
    assert reason(shared) == "shared-device: also on the card: process 7, process 9"
    assert reason(shared, limit_other_processes=1) == reason(shared)
    assert reason(shared, limit_other_processes=2) is None


def test_foreign_load():
    loaded = but(surroundings={"foreign_cpu_share": 0.08})
    assert reason(loaded) == "cpu-contention: other processes took 8.0% of the CPU (limit 5.0%)"
    assert reason(loaded, limit_foreign_load=0.1) is None
    unknown = but(surroundings={"foreign_cpu_share": 0.08, "foreign_cpu_resolution": None})
    assert reason(unknown) == reason(loaded)


@pytest.mark.parametrize(("share", "flagged"), [(0.15, False), (0.16, True), (1.0, True)])
def test_what_the_clock_can_not_resolve_is_not_held_against_it(share, flagged):
    """0.2 s: a tick of 10 ms at each edge is 10 %."""
    short = but(surroundings={"foreign_cpu_share": share, "foreign_cpu_resolution": 0.1})
    assert (reason(short) is not None) == flagged


def test_more_threads_than_usable_cores():
    crowded = but(surroundings={"threads_used": 4})
    assert reason(crowded) == "oversubscribed-cpu: 4 threads on 2 usable cores"
    assert reason(crowded, limit_threads_per_core=2) is None
    assert reason(but(surroundings={"threads_used": None})) is None


# power-window-too-short, energy-uncertain, impossible --------------------------------------------


def test_a_power_window_that_is_too_short():
    short = but(power={"energy_window_s": 0.5, "energy_window_too_short": True})
    assert reason(short) == "power-window-too-short: energy over 0.5 s; its sensor needs 1 s"
    assert reason(short, limit_power_window=0.5) is None
    assert reason(VALID, limit_power_window=3).startswith("power-window-too-short")
    assert reason(but(power={"energy_window_s": None})) is None


def known_to(uncertainty_j, **more):
    return but(power={"energy_j": 2000.0, "energy_uncertainty_j": uncertainty_j, **more})


def test_energy_that_is_hardly_known():
    said = "energy-uncertain: energy is known to ±6.0% only (limit ±3.5%)"
    longer = " (a larger limit_power_window measures for longer)"
    assert reason(known_to(70.0)) is None
    assert reason(known_to(120.0)) == said + longer
    assert reason(known_to(120.0), limit_energy_uncertainty=0.1) is None
    assert reason(known_to(None)) is None
    system = but(power={"system_energy_j": 4000.0, "system_energy_uncertainty_j": 240.0})
    assert reason(system) == said + longer


def test_energy_of_a_card_that_pauses_says_why_it_is_hardly_known():
    pauses = {"energy_method": "sampled", "utilisation_median": 0.7}
    assert ", busy 70% of the time: its sensor may be in step" in reason(known_to(120.0, **pauses))
    for other in ({"energy_method": "counter"}, {"utilisation_median": None}):
        assert "in step" not in reason(known_to(120.0, **{**pauses, **other}))


def test_what_a_model_answers_does_not_depend_on_its_energy():
    counted = but(known_to(120.0), scenario="accuracy", images=20, steadiness=None)
    assert reason(counted) is None


@pytest.mark.parametrize(
    ("asked", "images_per_s", "flagged"),
    [
        ("fp32", 5_000 * 2.24, False),  # Winograd saves as much
        ("fp32", 5_000 * 2.26, True),
        ("int8", 20_000 * 0.99, False),
        ("int8", 20_000 * 1.01, True),
        ("fp16", 10**9, False),  # nobody published a peak
    ],
)
def test_a_rate_above_the_cards_peak(asked, images_per_s, flagged):
    rate = Interval(value=images_per_s, low=images_per_s, high=images_per_s)
    found = but(
        images_per_s=rate, engine={"precision": asked}, preparation={"asked_precision": asked}
    )
    assert (reason(found) is not None) == flagged
    assert reason(found, card=None) is None
    assert reason(found, limit_peak_share=2) is None


def of_card(**peaks):
    figures = {name: Cited(value, "made up", "A") for name, value in peaks.items()}
    return dataclasses.replace(CARD, figures=figures)


def at(tflops, asked):
    """A record of so many 10^12 operations/s (two for each of 10^9 multiply-accumulates)."""
    rate = Interval(value=tflops * 500, low=tflops * 500, high=tflops * 500)
    return but(
        images_per_s=rate, engine={"precision": asked}, preparation={"asked_precision": asked}
    )


P4 = of_card(fp32_tflops=5.5, fp16_tflops=0.089, bf16_tflops=0.089, int8_tops=22)
P100 = of_card(fp32_tflops=9.3, fp16_tflops=18.7)
V100 = of_card(fp32_tflops=15.7, fp16_tflops=125)


@pytest.mark.parametrize(
    ("card", "asked", "possible"),
    [
        (P4, "fp16", 5.5 * 2.25),  # stored in FP16, computed in FP32
        (P4, "bf16", 5.5 * 2.25),
        (P4, "fp32", 5.5 * 2.25),
        (P4, "int8", 22),
        (P100, "fp16", 9.3 * 2.25),
        (V100, "fp16", 125),
        (of_card(fp16_tflops=10), "fp16", 10),  # nobody published its FP32
    ],
)
def test_half_precision_may_be_computed_in_fp32(card, asked, possible):
    """The larger of that arithmetic's peak and what is allowed in FP32 is the limit."""
    assert reason(at(0.99 * possible, asked), card=card) is None
    assert reason(at(1.01 * possible, asked), card=card) is not None
    assert reason(at(1.01 * possible, asked), card=card, limit_peak_share=1.1) is None


@pytest.mark.parametrize(
    ("card", "asked", "peak"),
    [(P4, "fp16", 5.5), (P4, "int8", 22), (P100, "fp16", 18.7), (V100, "fp16", 125)],
)
def test_the_share_of_half_precision_is_of_the_larger_peak(card, asked, peak):
    """Not 3000 % of a rate of FP16 that no library keeps to."""
    assert share_of_peak(at(3, asked), card) == pytest.approx(3 / peak)


def test_an_impossible_rate_of_half_precision_names_the_peak():
    assert reason(at(16.5, "fp16"), card=P4) == (
        "impossible: 300% of the card's published peak in FP32 (limit 225%)"
    )


def test_what_an_impossible_rate_says():
    rate = Interval(value=15_000, low=15_000, high=15_000)
    assert reason(but(images_per_s=rate)) == (
        "impossible: 300% of the card's published peak (limit 225%)"
    )


def test_published_rates_of_real_cards_are_possible():
    """VGG-16 (15.47e9 multiply-accumulates) in FP32 at 708 images/s on a V100 (15.7e12
    operations/s): apache/mxnet, its page on performance. More than its peak, by Winograd."""
    v100 = dataclasses.replace(CARD, figures={"fp32_tflops": Cited(15.7, "NVIDIA", "B")})
    vgg = but(
        images_per_s=Interval(value=708.43, low=708, high=709),
        preparation={"multiply_accumulates": 15_470_000_000},
    )
    assert share_of_peak(vgg, v100) == pytest.approx(1.396, abs=0.001)
    assert reason(vgg, card=v100) is None


def test_the_share_of_peak_is_of_all_devices():
    assert share_of_peak(VALID, CARD) == pytest.approx(2e9 * 800 / 10e12)
    four = but(device_count=4)
    assert share_of_peak(four, CARD) == pytest.approx(2e9 * 800 / 40e12)
    assert share_of_peak(but(preparation={"multiply_accumulates": 0}), CARD) is None


def test_the_share_of_peak_of_a_latency_is_that_of_its_median_batch():
    assert share_of_peak(LATENCY, CARD) == pytest.approx(2e9 * 800 / 10e12)
    two = but(LATENCY, device_count=2)
    assert share_of_peak(two, CARD) == pytest.approx(share_of_peak(LATENCY, CARD))
    assert share_of_peak(but(LATENCY, samples=2, p50=None), CARD) is None


# docs --------------------------------------------------------------------------------------------


def test_docs_have_a_heading_for_every_rule_and_no_other():
    section = DOCS.read_text().split("\n## The verdict\n")[1].split("\n## ")[0]
    assert re.findall(r"^### (\S+)$", section, re.M) == [rule.name for rule in RULES]
    assert {rule.name for rule in RULES} >= OF_ENERGY


@pytest.mark.parametrize("key", LIMITS)
def test_docs_name_every_threshold_with_its_default(key):
    default = flatten(make_settings())[key]
    assert re.search(rf"`{key}` \({default:g}\)", DOCS.read_text())


def test_docs_print_the_tolerances():
    text = DOCS.read_text()
    for name, (error, distance) in TOLERANCES.items():
        assert re.search(rf"\| {name.upper()}.* \| {error:g} \| {distance:g} \|", text), name


def test_what_slows_a_machine_down_is_no_reason_against_an_accuracy():
    loaded = Surroundings(
        foreign_cpu_share=0.9, threads_used=8, usable_cores=1, other_processes=("other (pid 7)",)
    )
    timed = but(VALID, surroundings=loaded)
    rules = {text.partition(":")[0] for text in judge(timed, make_settings(), CARD)}
    assert {"cpu-contention", "shared-device"} <= rules
    answered = but(
        timed,
        scenario="accuracy",
        steadiness=None,
        output_check=None,
        images=20,
        logit_cosine=1.0,
    )
    assert judge(answered, make_settings(), CARD) == ()
