"""Engines behind a fake of ONNX Runtime's session: there is no TensorRT here."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest

from benchrack.cache import Cache
from benchrack.errors import OutOfMemoryError
from benchrack.plugins.backends import onnx_graphs, onnxruntime as backend, tensorrt_engines
from benchrack.vocabulary.devices import Device

CARD = Device(kind="cuda", index=1, name="Tesla T4")


class Session:
    """Builds an engine as the provider does: into the folder that it was told, if none is there."""

    built: list[dict[str, str]]
    ran: list[tuple[int, ...]]
    fault: Exception | None

    def __init__(self, graph: str, options: object = None, *, providers: list) -> None:
        (_, self.tensorrt), _ = providers

    def run(self, _: None, feeds: dict) -> None:
        type(self).ran.append(feeds[onnx_graphs.INPUT].shape)
        if self.fault is not None:
            raise self.fault
        engine = Path(self.tensorrt["trt_engine_cache_path"]) / "graph.engine"
        if not engine.exists():
            engine.write_text("engine")
            type(self).built.append(self.tensorrt)


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    Session.built, Session.ran, Session.fault = [], [], None
    return Session


@pytest.fixture
def tensorrt(fake, request_for, tmp_path):
    """`tensorrt(batch_size)`: the options with which a session of that batch size would start."""
    cache = Cache(tmp_path)

    def options(batch_size, graph="a", **changes):
        request = request_for(**{"device": CARD, "cache": cache, **changes}, batch_size=batch_size)
        (name, found), (other, _) = backend._providers(
            tmp_path / "onnx-int8" / graph / "model.onnx", request, "int8"
        )
        assert (name, other) == (backend.TENSORRT, backend.CUDA)
        return found

    return options


def test_the_shapes_are_told_beforehand(tensorrt):
    """From one, as profiled, up to the case's, for which kernels are chosen."""
    found = tensorrt(32)
    assert found["trt_profile_min_shapes"] == f"{onnx_graphs.INPUT}:1x1x28x28"
    assert found["trt_profile_opt_shapes"] == f"{onnx_graphs.INPUT}:32x1x28x28"
    assert found["trt_profile_max_shapes"] == f"{onnx_graphs.INPUT}:32x1x28x28"
    assert (found["device_id"], found["trt_int8_enable"]) == ("1", "1")


def test_an_engine_is_built_once_with_a_batch_of_its_size_and_found_by_all_others(tensorrt, fake):
    first, second = tensorrt(32), tensorrt(32)
    assert first == second
    assert len(fake.built) == 1
    assert fake.ran == [(32, 1, 28, 28)]
    assert (Path(first["trt_engine_cache_path"]) / "graph.engine").read_text() == "engine"


@pytest.mark.parametrize(
    "other",
    [
        {"batch_size": 8},
        {"batch_size": 32, "graph": "b"},
        {"batch_size": 32, "device": Device(kind="cuda", name="NVIDIA L4")},
    ],
    ids=["batch size", "graph", "card"],
)
def test_what_an_engine_was_not_built_for_gets_its_own(tensorrt, fake, other):
    one, two = tensorrt(32), tensorrt(**other)
    assert one["trt_engine_cache_path"] != two["trt_engine_cache_path"]
    assert len(fake.built) == 2


def test_the_same_card_in_another_place_finds_the_engine(tensorrt, fake):
    other = Device(kind="cuda", index=0, name=CARD.name)
    one, two = tensorrt(32), tensorrt(32, device=other)
    assert one["trt_engine_cache_path"] == two["trt_engine_cache_path"]
    assert (one["device_id"], two["device_id"]) == ("1", "0")
    assert len(fake.built) == 1


@pytest.mark.parametrize(
    ("loaded", "built"),
    [
        (("CUDA runtime 12.9", "cuDNN 9.10.2", "TensorRT 10.9.0"), 1),
        (("CUDA runtime 12.9", "TensorRT 10.13.3"), 2),
    ],
    ids=["libraries that earlier cases loaded", "another TensorRT"],
)
def test_of_the_libraries_tensorrt_alone_makes_another_engine(
    tensorrt, fake, monkeypatch, loaded, built
):
    def loads(*versions):
        monkeypatch.setattr(tensorrt_engines, "loaded_versions", lambda *, tensorrt: versions)

    loads("CUDA runtime 12.9", "TensorRT 10.9.0")
    tensorrt(32)
    loads(*loaded)
    tensorrt(32)
    assert len(fake.built) == built


def test_a_build_that_runs_out_of_memory_leaves_no_engine(fake, request_for, tmp_path):
    fake.fault = RuntimeError("Failed to allocate memory for requested buffer of size 1")
    request = request_for(device=CARD, cache=Cache(tmp_path), batch_size=4096)
    with pytest.raises(OutOfMemoryError):
        backend._start(tmp_path / "onnx-int8" / "a" / "model.onnx", request, "int8")
    assert request.cache.entries() == []
