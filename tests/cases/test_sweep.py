"""Sweep files and options become cases, or an error that says where and what."""

import pytest
from fakes.settings import make_settings

from benchrack.cases import sweep
from benchrack.errors import SweepError, UnknownNameError
from benchrack.registry.registry import load_registry

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
    cases = sweep.cases(sweep.load(write(MINIMAL)), "throughput", registry)
    assert [case.id for case in cases] == [
        "resnet50-pytorch-fp32-b1-x1",
        "resnet50-pytorch-fp32-b8-x1",
        "resnet50-pytorch-fp16-b1-x1",
        "resnet50-pytorch-fp16-b8-x1",
    ]


def test_a_scenario_that_the_sweep_lacks_has_no_cases(write, registry):
    assert sweep.cases(sweep.load(write(MINIMAL)), "latency", registry) == []


def test_a_relative_path_is_taken_against_the_given_folder(write, tmp_path):
    write(MINIMAL)
    assert sweep.load("mine.toml", tmp_path).name == "mine"


@pytest.mark.parametrize("name", sorted(sweep.built_in()))
def test_built_in_sweeps_name_only_what_is_registered(name, registry):
    found = sweep.load(name)
    assert found.summary
    for scenario in found.axes:
        assert sweep.cases(found, scenario, registry)


def test_the_quick_sweep_is_what_the_readme_says(registry):
    quick = sweep.load("quick")
    counts = {s: len(sweep.cases(quick, s, registry)) for s in quick.axes}
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
        (MINIMAL + "[settings]\ntime_limit = 3\n", "Did you mean time_limit_s?"),
        (MINIMAL + "[settings]\ntime_limit_s = -3\n", "zero or more, found -3"),
        (MINIMAL + "[settings]\nthreads = 1.5\n", "found 1.5"),
        (MINIMAL + '[settings]\ntransfer = "maybe"\n', "auto, include, exclude"),
        (
            MINIMAL.replace("throughput", "accuracy") + "device_counts = [1, 2]\n",
            "[accuracy]: device_counts can only be [1]",
        ),
    ],
)
def test_a_faulty_file_says_where_and_what(write, text, words):
    with pytest.raises(SweepError, match=words.replace("[", r"\[")) as caught:
        sweep.load(write(text))
    assert "mine.toml" in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SweepError, match=r"absent\.toml can't be read"):
        sweep.load(str(tmp_path / "absent.toml"))


def test_an_unknown_sweep_lists_the_known():
    with pytest.raises(UnknownNameError, match="Did you mean 'quick'"):
        sweep.load("quik")


@pytest.mark.parametrize(
    ("axis", "value"),
    [("models", ("resnet5",)), ("backends", ("pytorch-fp8",)), ("dataset", "imagnet:/data")],
)
def test_an_unknown_name_lists_the_known(write, registry, axis, value):
    found = sweep.override(sweep.load(write(MINIMAL)), sweep.Overrides(**{axis: value}))
    with pytest.raises(UnknownNameError, match="Known: "):
        sweep.cases(found, "throughput", registry)


def test_options_override_axes_but_not_the_batch_size_of_accuracy(registry):
    overrides = sweep.Overrides(models=("vgg16",), batch_sizes=(64,), device_counts=(1, 2))
    found = sweep.override(sweep.load("quick"), overrides)
    assert {a.models for a in found.axes.values()} == {("vgg16",)}
    assert found.axes["throughput"].batch_sizes == (64,)
    assert found.axes["throughput"].device_counts == (1, 2)
    assert found.axes["accuracy"].batch_sizes == (25,)
    assert found.axes["accuracy"].device_counts == (1,)


def test_settings_from_options_are_converted():
    given = sweep.parse_settings(["time_limit_s=10", "threads=2", "transfer=include"])
    assert sweep.apply_settings(make_settings(), given, "--set") == make_settings(
        time_limit_s=10.0, threads=2, transfer="include"
    )


def published(*pairs):
    overrides = sweep.Overrides(settings=sweep.parse_settings(["publish=true", *pairs]))
    return sweep.override(sweep.load("quick"), overrides).settings


def test_publish_asks_for_more_and_never_for_less():
    preset = published("time_limit_s=3", "interval=0.02", "starts=2")
    assert (preset.starts, preset.interval, preset.time_limit_s) == (6, 0.005, 30.0)
    stricter = published("time_limit_s=90", "interval=0.001", "starts=9")
    assert (stricter.starts, stricter.interval, stricter.time_limit_s) == (9, 0.001, 90.0)


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
    assert sweep.parse_numbers("--batch-sizes", "1,8") == (1, 8)
    with pytest.raises(SweepError, match="names with commas"):
        sweep.parse_list("--models", "a,,b")
    with pytest.raises(SweepError, match="whole numbers from 1, found 'x'"):
        sweep.parse_numbers("--batch-sizes", "1,x")
