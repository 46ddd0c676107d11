"""Sweep files and options become cases, or an error that says where and what."""

import pytest
from fakes.scenarios import LATENCY, SCENARIOS, THROUGHPUT
from fakes.settings import make_settings

from benchrack.cases import sweep
from benchrack.errors import SweepError, UnknownNameError
from benchrack.registry.registry import load_registry
from benchrack.vocabulary.scenarios import BATCH_SIZES

MINIMAL = """
[throughput]
models = ["resnet50"]
backends = ["pytorch-fp32", "pytorch-fp16"]
batch_sizes = [1, 8]
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture(scope="module")
def registry():
    return load_registry()


def test_a_case_for_each_point_model_by_model(write, registry):
    cases = sweep.cases(sweep.load(write(MINIMAL), SCENARIOS), THROUGHPUT, registry)
    assert [case.id for case in cases] == [
        "resnet50-pytorch-fp32-b1-x1",
        "resnet50-pytorch-fp32-b8-x1",
        "resnet50-pytorch-fp16-b1-x1",
        "resnet50-pytorch-fp16-b8-x1",
    ]


def test_a_scenario_that_the_sweep_lacks_has_no_cases(write, registry):
    assert sweep.cases(sweep.load(write(MINIMAL), SCENARIOS), LATENCY, registry) == []


def test_a_relative_path_is_taken_against_the_given_folder(write, tmp_path):
    write(MINIMAL)
    assert sweep.load("mine.toml", SCENARIOS, tmp_path).name == "mine"


@pytest.mark.parametrize("name", sorted(sweep.built_in()))
def test_built_in_sweeps_name_only_what_is_registered(name, registry):
    found = sweep.load(name, SCENARIOS)
    assert found.summary
    for scenario in found.spans:
        assert sweep.cases(found, SCENARIOS[scenario], registry)


def test_the_quick_sweep_is_what_the_readme_says(registry):
    quick = sweep.load("quick", SCENARIOS)
    counts = {s: len(sweep.cases(quick, SCENARIOS[s], registry)) for s in quick.spans}
    assert counts == {"throughput": 18, "latency": 9, "accuracy": 6}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[throughput", "not TOML"),
        ("", "none of the tables"),
        ("[through_put]\n", "unknown key 'through_put'"),
        ("throughput = 1", "expected a table"),
        (MINIMAL.replace("models", "model"), "unknown key 'model'"),
        (MINIMAL.replace('models = ["resnet50"]', ""), "models is missing"),
        (MINIMAL.replace("[1, 8]", "[1, 0]"), "whole numbers from 1, found 0"),
        (MINIMAL.replace("[1, 8]", "8"), "expected a list"),
        (MINIMAL.replace("[1, 8]", "[true]"), "found True"),
        (MINIMAL.replace('["resnet50"]', "[]"), "at least one"),
        (MINIMAL + "[settings]\ntime_limit = 3\n", "Did you mean 'time_limit_s'"),
        (MINIMAL + "[settings]\ntime_limit_s = -3\n", "zero or more, found -3"),
        (MINIMAL + "[settings]\nthreads = 1.5\n", "found 1.5"),
        (MINIMAL + '[settings]\ntransfer = "maybe"\n', "auto, include, exclude"),
        (
            MINIMAL.replace("throughput", "accuracy") + "device_counts = [1, 2]\n",
            "[accuracy], device_counts: expected 1, since accuracy does not depend on",
        ),
    ],
)
def test_a_faulty_file_says_where_and_what(write, text, words):
    with pytest.raises(SweepError, match=words.replace("[", r"\[")) as caught:
        sweep.load(write(text), SCENARIOS)
    assert "mine.toml" in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SweepError, match=r"absent\.toml can't be read"):
        sweep.load(str(tmp_path / "absent.toml"), SCENARIOS)


def test_an_unknown_sweep_lists_the_known():
    with pytest.raises(UnknownNameError, match="Did you mean 'quick'"):
        sweep.load("quik", SCENARIOS)


@pytest.mark.parametrize(
    ("axis", "value"),
    [
        ("axes", {"models": ("resnet5",)}),
        ("axes", {"backends": ("pytorch-fp8",)}),
        ("dataset", "imagnet:/data"),
    ],
)
def test_an_unknown_name_lists_the_known(write, registry, axis, value):
    minimal = sweep.load(write(MINIMAL), SCENARIOS)
    found = sweep.override(minimal, sweep.Overrides(**{axis: value}), SCENARIOS)
    with pytest.raises(UnknownNameError, match="Known: "):
        sweep.cases(found, THROUGHPUT, registry)


def test_options_override_axes_but_not_the_batch_size_of_accuracy(registry):
    given = {"models": ("vgg16",), "batch_sizes": (64,), "device_counts": (1, 2)}
    quick = sweep.load("quick", SCENARIOS)
    found = sweep.override(quick, sweep.Overrides(axes=given), SCENARIOS)
    assert {span.models for span in found.spans.values()} == {("vgg16",)}
    assert found.spans["throughput"].axes["batch_sizes"] == (64,)
    assert found.spans["throughput"].device_counts == (1, 2)
    assert found.spans["accuracy"].axes["batch_sizes"] == (25,)
    assert found.spans["accuracy"].device_counts == (1,)


def test_settings_from_options_are_converted():
    given = sweep.parse_settings(["time_limit_s=10", "threads=2", "transfer=include"])
    assert sweep.apply_settings(make_settings(), given, "--set") == make_settings(
        time_limit_s=10.0, threads=2, transfer="include"
    )


def published(*pairs):
    overrides = sweep.Overrides(settings=sweep.parse_settings(["publish=true", *pairs]))
    return sweep.override(sweep.load("quick", SCENARIOS), overrides, SCENARIOS).settings


def test_publish_asks_for_more_and_never_for_less():
    preset = published("time_limit_s=3", "interval=0.02", "starts=2")
    assert (preset.run.starts, preset.measure.interval, preset.measure.time_limit_s) == (
        6,
        0.005,
        30.0,
    )
    stricter = published("time_limit_s=90", "interval=0.001", "starts=9")
    assert (stricter.run.starts, stricter.measure.interval, stricter.measure.time_limit_s) == (
        9,
        0.001,
        90.0,
    )


@pytest.mark.parametrize("pair", ["time_limit_s", "=3", ""])
def test_a_setting_needs_a_key_and_a_value(pair):
    with pytest.raises(SweepError, match="expected key=value"):
        sweep.parse_settings([pair])


@pytest.mark.parametrize("value", ["nan", "inf", "many", "-1"])
def test_a_setting_must_be_a_number_that_makes_sense(value):
    with pytest.raises(SweepError, match="--set, time_limit_s: expected a number"):
        sweep.apply_settings(make_settings(), {"time_limit_s": value}, "--set")


def test_lists_of_options():
    assert sweep.parse_list("--models", "a, b,a") == ("a", "b")
    assert sweep.parse_axis(BATCH_SIZES, "1,8") == (1, 8)
    with pytest.raises(SweepError, match="names with commas"):
        sweep.parse_list("--models", "a,,b")
    with pytest.raises(SweepError, match="whole numbers from 1, found 'x'"):
        sweep.parse_axis(BATCH_SIZES, "1,x")
