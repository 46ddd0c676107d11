"""What ran, read from profiles as ONNX Runtime writes them."""

import json

import pytest

from benchrack.errors import ResultsError
from benchrack.plugins.backends.onnxruntime import _deviations
from benchrack.plugins.backends.onnxruntime_profile import read_profile

CPU, CUDA, TENSORRT = (f"{name}ExecutionProvider" for name in ("CPU", "CUDA", "Tensorrt"))


def kernel(operator, element="float", provider=CPU):
    return {
        "cat": "Node",
        "name": f"node_{operator}_kernel_time",
        "dur": 17,
        "args": {
            "op_name": operator,
            "provider": provider,
            "input_type_shape": [{element: [1, 3, 224, 224]}],
        },
    }


@pytest.fixture
def profile(tmp_path):
    def write(*kernels):
        session = {"cat": "Session", "name": "session_initialization", "dur": 5}
        fence = {"cat": "Node", "name": "node_fence_before", "args": {"op_name": "Conv"}}
        (tmp_path / "profile.json").write_text(json.dumps([session, fence, *kernels]))
        return read_profile(tmp_path / "profile.json")

    return write


def test_compute_kernels_are_counted_by_arithmetic(profile):
    found = profile(
        kernel("QLinearConv", "uint8"), kernel("QGemm", "uint8"), kernel("Conv"), kernel("MaxPool")
    )
    assert found.compute_nodes() == 3
    assert found.compute_nodes("int8") == 2
    assert found.arithmetics() == {"int8": 2, "fp32": 1}
    assert found.provider_share == (f"{CPU}=1.000",)


def test_all_as_asked_deviates_in_nothing(profile):
    found = profile(kernel("QLinearConv", "uint8"), kernel("DequantizeLinear", "uint8"))
    assert _deviations(found, "int8", CPU, found.compute_nodes("int8")) == []


def test_an_unfused_convolution_is_named(profile):
    found = profile(kernel("QLinearConv", "uint8"), kernel("Conv"))
    assert _deviations(found, "int8", CPU, 1) == [
        "1 of 2 convolutions and matrix products did not run in INT8"
    ]


def test_a_convolution_that_fell_back_to_the_cpu_is_named(profile):
    found = profile(kernel("Conv", provider=CUDA), kernel("Conv"), kernel("Relu"))
    assert _deviations(found, "fp32", CUDA, 2) == [
        f"1 of 2 convolutions and matrix products ran outside {CUDA}"
    ]
    assert found.provider_share == (f"{CPU}=0.667", f"{CUDA}=0.333")


def test_kernels_inside_a_tensorrt_engine_are_its_own(profile):
    found = profile(kernel("TRTKernel_graph_0", provider=TENSORRT))
    assert found.compute_nodes("engine", TENSORRT) == 1
    assert _deviations(found, "int8", TENSORRT, 1) == []


@pytest.mark.parametrize("content", ["", "[{", "nonsense"])
def test_a_profile_that_is_none_is_an_error_with_its_name(tmp_path, content):
    path = tmp_path / "profile.json"
    path.write_text(content)
    with pytest.raises(ResultsError, match=r"profile\.json can't be read"):
        read_profile(path)
