"""Every built-in backend on the CPU, on a small real network: what it computes, and says."""

import dataclasses
import gc
import warnings
import weakref
from contextlib import closing

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")

from benchrack.data.comparison import check_outputs  # noqa: E402
from benchrack.errors import UnsupportedError  # noqa: E402
from benchrack.machine.processors import INTEGER_DOT_PRODUCT, instruction_sets  # noqa: E402
from benchrack.plugins.backends import (  # noqa: E402
    onnx_graphs,
    pytorch as torch_backend,
)
from benchrack.vocabulary.devices import Device  # noqa: E402

CONVOLUTIONS_AND_PRODUCTS = 5  # of the digits network: four convolutions and a linear layer


def run(plugins, backend, request, images):
    with closing(plugins.backend(backend).prepare(request)) as session:
        output = session.run(session.place(images))
        session.synchronize()
        return session.engine, session.fetch(output)


@pytest.fixture(scope="module")
def reference(plugins, request_for, images):
    return run(plugins, "pytorch-fp32", request_for(), images)[1]


# Largest error relative to the image's largest output, by what the precision can keep.
TOLERANCES = {
    "pytorch-fp32": 1e-6,
    "pytorch-fp16": 1e-2,
    "pytorch-bf16": 6e-2,
    "onnxruntime-fp32": 1e-5,
    "onnxruntime-fp16": 1e-2,
    "onnxruntime-int8": 2e-1,
}


@pytest.mark.parametrize("backend", TOLERANCES)
def test_outputs_are_those_of_fp32_within_the_precision(
    plugins, request_for, images, reference, backend
):
    engine, output = run(plugins, backend, request_for(), images)
    assert output.dtype == np.float32
    assert output.shape == (4, 10)
    assert check_outputs(output, reference, "").max_relative_error < TOLERANCES[backend]
    assert engine.compute_nodes == CONVOLUTIONS_AND_PRODUCTS
    assert engine.threads == 1


@pytest.mark.parametrize("backend", ["pytorch-fp16", "pytorch-bf16"])
def test_reduced_precision_really_is_reduced(plugins, request_for, images, reference, backend):
    output = run(plugins, backend, request_for(), images)[1]
    assert check_outputs(output, reference, "").max_relative_error > 1e-5


@pytest.mark.parametrize("backend", ["pytorch-fp32", "onnxruntime-fp32"])
def test_fp32_is_reported_as_asked(plugins, request_for, images, backend):
    engine, _ = run(plugins, backend, request_for(), images)
    assert engine.precision == "fp32"
    assert engine.deviations == ()
    assert engine.low_precision_nodes == engine.compute_nodes


def deviations(plugins, request):
    with closing(plugins.backend("pytorch-fp32").prepare(request)) as session:
        return session.engine.deviations


@pytest.mark.parametrize("name", ["DNNL_DEFAULT_FPMATH_MODE", "ONEDNN_DEFAULT_FPMATH_MODE"])
@pytest.mark.parametrize("mode", ["BF16", "F16", "tf32", "ANY"])
def test_fp32_that_onednn_may_round_is_named(plugins, request_for, monkeypatch, name, mode):
    monkeypatch.setenv(name, mode)
    said = f"{name}={mode} lets oneDNN round products of FP32: unset it"
    assert deviations(plugins, request_for()) == (said,)
    device = request_for().device
    assert f"({name}={mode})" in plugins.backend("pytorch-fp32").runs_as(device)
    assert name not in plugins.backend("pytorch-bf16").runs_as(device)


@pytest.mark.parametrize("modes", [("STRICT", "BF16"), ("", "STRICT"), ("", "")])
def test_fp32_that_onednn_may_not_round_is_as_asked(plugins, request_for, monkeypatch, modes):
    """oneDNN's own name for the variable counts before its older one."""
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", modes[0])
    monkeypatch.setenv("DNNL_DEFAULT_FPMATH_MODE", modes[1])
    assert deviations(plugins, request_for()) == ()


def test_a_closed_session_holds_no_weights(plugins, request_for):
    session = plugins.backend("pytorch-fp32").prepare(request_for())
    weights = weakref.ref(session.loaded.module)
    session.close()
    gc.collect()
    assert weights() is None
    assert session.loaded.parameters > 0


@pytest.mark.skipif(
    not set(INTEGER_DOT_PRODUCT) & instruction_sets(), reason="this CPU has no integer dot product"
)
def test_int8_is_fused_and_says_how_it_was_made(plugins, request_for, images):
    engine, _ = run(plugins, "onnxruntime-int8", request_for(), images)
    assert engine.name == "ONNX Runtime CPUExecutionProvider"
    assert engine.precision == "int8"
    assert engine.low_precision_nodes == engine.compute_nodes == CONVOLUTIONS_AND_PRODUCTS
    assert engine.provider_share == ("CPUExecutionProvider=1.000",)
    assert engine.instruction_set in INTEGER_DOT_PRODUCT
    assert any("U8S8, per channel, minmax over 50 images" in option for option in engine.options)


def test_fp16_on_onnxruntimes_cpu_is_named_what_it_is(plugins, request_for, images):
    engine, _ = run(plugins, "onnxruntime-fp16", request_for(), images)
    if engine.low_precision_nodes:
        pytest.skip("this onnxruntime has FP16 kernels for this CPU")
    assert engine.precision.startswith("fp32")
    assert engine.deviations == ("FP16 on ONNX Runtime's CPU provider is FP32 with casts",)


def test_tf32_is_not_for_cpus(plugins, request_for):
    with pytest.raises(UnsupportedError, match="TF32 is an arithmetic of NVIDIA cards"):
        plugins.backend("pytorch-tf32").prepare(request_for())


def test_int8_without_calibration_pictures_says_so(plugins, request_for):
    request = request_for(calibration_digest=None, calibration_images=0)
    with pytest.raises(UnsupportedError, match="nothing to calibrate on"):
        plugins.backend("onnxruntime-int8").prepare(request)


def test_products_are_made_once_and_under_their_own_keys(plugins, request_for, images):
    request = request_for()
    run(plugins, "onnxruntime-int8", request, images)
    kinds = {entry.kind: entry for entry in request.cache.entries()}
    assert {"onnx", "onnx-int8"} <= kinds.keys()
    run(plugins, "onnxruntime-int8", request, images)
    again = {entry.kind: entry for entry in request.cache.entries()}
    assert again["onnx-int8"].modified_s == kinds["onnx-int8"].modified_s
    other = request_for(calibration_digest="other noise")
    run(plugins, "onnxruntime-int8", other, images)
    assert len([e for e in request.cache.entries() if e.kind == "onnx-int8"]) == 2


def test_the_exported_graph_takes_any_batch_and_an_old_runtime_reads_it(
    plugins, request_for, images
):
    import onnx

    request = request_for()
    loaded = request.model.load("random", request.cache)
    model = onnx.load(onnx_graphs.exported(request, loaded))
    assert model.ir_version == 8  # onnxruntime 1.17 reads up to 9
    assert [o.version for o in model.opset_import if o.domain == ""] == [18]
    with closing(plugins.backend("onnxruntime-fp32").prepare(request)) as session:
        for size in (1, 3, 4):
            assert session.fetch(session.run(session.place(images[:size]))).shape == (size, 10)


def test_a_fetched_output_is_not_overwritten_by_the_next_batch(plugins, request_for, images):
    with closing(plugins.backend("onnxruntime-fp32").prepare(request_for())) as session:
        first = session.fetch(session.run(session.place(images)))
        kept = first.copy()
        session.fetch(session.run(session.place(images + 1)))
        assert np.array_equal(first, kept)


@pytest.mark.parametrize("backend", ["pytorch-fp32", "pytorch-fp16", "onnxruntime-fp32"])
def test_placing_copies_or_leaves_the_callers_images_alone(plugins, request_for, images, backend):
    before = images.copy()
    run(plugins, backend, request_for(), images)
    assert np.array_equal(images, before)


def test_preparing_warns_of_nothing(plugins, request_for, images):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for backend in TOLERANCES:
            run(plugins, backend, request_for(), images)
        gc.collect()


def test_a_cuda_device_that_torch_can_not_use_is_unsupported_with_the_reason(plugins):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    reason = plugins.backend("pytorch-fp32").unsupported(Device(kind="cuda", name="Tesla V100"))
    assert reason is not None
    assert "CUDA" in reason


@pytest.mark.parametrize(
    ("capability", "words"),
    [((6, 1), "computes in FP32 what it stores in FP16"), ((7, 0), "computes in FP16")],
)
def test_fp16_without_tensor_cores_is_expected_in_fp32(plugins, monkeypatch, capability, words):
    """As PyTorch has cuDNN compute it on a P4 or P40."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
    device = Device(kind="cuda", index=1)
    assert words in plugins.backend("pytorch-fp16").runs_as(device)
    assert plugins.backend("pytorch-fp32").runs_as(device) == "eager, computes in FP32"


@pytest.mark.parametrize("backend", ["pytorch-fp32", "onnxruntime-int8"])
def test_an_engine_says_what_it_was_built_of(plugins, request_for, images, backend):
    """Equal in each session: facts of the build and of the threads, no figures."""
    first, second = (run(plugins, backend, request_for(), images)[0].build for _ in range(2))
    assert first == second
    assert all(isinstance(fact, str) and 0 < len(fact) < 1000 for fact in first)


def test_pytorch_says_its_libraries_and_threads(plugins, request_for, images):
    engine, _ = run(plugins, "pytorch-fp32", request_for(threads=2), images)
    facts = engine.build
    assert f"commit {torch.version.git_version}" in facts
    assert any(fact.startswith("built with") and "BUILD_TYPE=Release" in fact for fact in facts)
    assert any(fact.endswith(" 2 threads") and not fact.startswith("inter") for fact in facts)
    assert f"inter-op {torch.get_num_interop_threads()} threads" in facts
    assert not any("=OFF" in fact or "cuDNN" in fact for fact in facts)  # not used on the CPU


@pytest.mark.skipif(torch.version.cuda is None, reason="a build of PyTorch without CUDA")
def test_on_a_card_pytorch_says_the_libraries_that_it_loaded():
    """It links cuDNN, and so loads it also here, where no card is."""
    facts = list(torch_backend._build(on_cpu=False))
    number = torch.backends.cudnn.version()  # 92400, of 9.24.0
    version = f"{number // 10_000}.{number % 10_000 // 100}.{number % 100}"
    assert f"CUDA {torch.version.cuda}" in facts
    assert f"cuDNN {version}" in facts
    assert any(fact.startswith("CUDA runtime ") for fact in facts)
    assert any(fact.startswith("cuBLAS ") for fact in facts)


def test_onnxruntime_says_its_build_and_threads(plugins, request_for, images):
    engine, _ = run(plugins, "onnxruntime-fp32", request_for(threads=2), images)
    assert "build type=Release" in engine.build[0]
    assert engine.build[1:] == ("intra-op 2 threads", "inter-op 1 threads")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"sse2", "avx512_vnni"}, "U8S8"),
        ({"sse2", "avx2"}, "U8S8 reduce_range"),
        ({"asimddp"}, "S8S8"),
    ],
)
def test_the_quantisation_scheme_fits_the_cpu(monkeypatch, flags, expected):
    monkeypatch.setattr(onnx_graphs.processors, "instruction_sets", lambda: frozenset(flags))
    assert str(onnx_graphs.scheme_for(Device(kind="cpu"))) == expected


def test_tensorrt_takes_signed_symmetric_activations():
    scheme = onnx_graphs.scheme_for(Device(kind="cuda"))
    assert (str(scheme), scheme.for_tensorrt) == ("S8S8", True)


def test_a_broken_export_leaves_nothing_in_the_cache(plugins, request_for, tmp_path, monkeypatch):
    from benchrack.cache import Cache

    def failing(*arguments, **options):
        raise RuntimeError("an operator that ONNX has not")

    monkeypatch.setattr(torch.onnx, "export", failing)
    request = request_for(cache=Cache(tmp_path))
    with pytest.raises(RuntimeError, match="an operator"):
        plugins.backend("onnxruntime-fp32").prepare(request)
    assert "onnx" not in {entry.kind for entry in Cache(tmp_path).entries()}


def test_the_framework_is_described_without_importing_it(plugins):
    """`benchrack list backends` reads these and nothing else."""
    for backend in plugins.backends.values():
        assert dataclasses.is_dataclass(backend)
        assert backend.requires
        assert backend.summary


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_what_falls_back_is_known_beforehand(plugins, request_for, monkeypatch, precision):
    """What doctor says is what the session says, on a CPU with that arithmetic and without."""
    from benchrack.plugins.backends import pytorch

    backend, device = plugins.backend(f"pytorch-{precision}"), request_for().device
    for native, rounding in ((True, None), (False, "DNNL_DEFAULT_FPMATH_MODE=BF16")):
        monkeypatch.setattr(pytorch, "_computes_on_cpu", lambda asked, native=native: native)
        monkeypatch.setattr(pytorch, "_rounding", lambda rounding=rounding: rounding)
        with closing(backend.prepare(request_for())) as session:
            expected = backend.falls_back(device)
            assert session.engine.deviations == ((expected,) if expected else ())
            assert (expected is None) is native
        slow = precision != "fp32" and not native
        assert backend.emulates(device) == (expected if slow else None)
        assert backend.emulates(Device(kind="cuda")) is None
