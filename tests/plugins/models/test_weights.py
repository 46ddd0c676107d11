"""Where weights come from: random, the network's own, or a folder; and what is refused."""

import hashlib
import pickle
import sys
import types

import numpy as np
import pytest

from benchrack.cache import Cache
from benchrack.errors import WeightsError
from benchrack.plugins.models import weights
from benchrack.plugins.models.weights import Network, Weights
from benchrack.vocabulary.models import Preprocessing

torch = pytest.importorskip("torch")
SIDE = 32


def build():
    with torch.device("meta"):
        layers = [torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.BatchNorm2d(4), torch.nn.ReLU()]
        head = torch.nn.Linear(4, 10)
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), head)


def state(fill=0.5):
    return {
        "0.weight": torch.full((4, 3, 3, 3), fill),
        "1.weight": torch.ones(4),
        "1.bias": torch.zeros(4),
        "1.running_mean": torch.zeros(4),
        "1.running_var": torch.ones(4),
        "1.num_batches_tracked": torch.tensor(3),
        "5.weight": torch.full((10, 4), fill),
        "5.bias": torch.zeros(10),
    }


def own(cache):
    return Weights(origin="its package", trained=True, state=state(0.25))


def network(**fields):
    rule = Preprocessing(resize=SIDE, crop=SIDE, mean=(127.0,) * 3, std=(64.0,) * 3)
    return Network(
        **{
            "name": "tiny",
            "input_shape": (3, SIDE, SIDE),
            "preprocessing": rule,
            "build": build,
            **fields,
        }
    )


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


def load_file(tmp_path, cache, content, name="tiny.pth", **fields):
    torch.save(content, tmp_path / name)
    return weights.load(network(**fields), str(tmp_path), cache)


def test_a_folder_gives_the_state_dict_of_the_models_name(tmp_path, cache):
    loaded = load_file(tmp_path, cache, state())
    assert loaded.weights == "file tiny.pth"
    assert loaded.trained
    assert (loaded.module[0].weight == 0.5).all()
    assert not loaded.module.training
    assert not any(p.requires_grad for p in loaded.module.parameters())
    assert loaded.module(torch.ones(2, 3, SIDE, SIDE)).shape == (2, 10)


def test_parameters_and_multiply_accumulates_are_counted(tmp_path, cache):
    loaded = load_file(tmp_path, cache, state())
    assert loaded.parameters == 4 * 3 * 9 + 4 + 4 + 10 * 4 + 10
    assert loaded.multiply_accumulates == 30 * 30 * 4 * 3 * 9 + 4 * 10


def test_the_digest_is_a_sha256_over_names_dtypes_shapes_and_bytes(tmp_path, cache):
    loaded = load_file(tmp_path, cache, state())
    expected = hashlib.sha256()
    for name, tensor in sorted(state().items()):
        expected.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        expected.update(tensor.numpy().tobytes())
    assert loaded.digest == expected.hexdigest()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("5.bias", lambda t: t + 1e-7),
        ("5.weight", lambda t: t.reshape(4, 10)),
        ("1.num_batches_tracked", lambda t: t.float()),
        ("5.bias", lambda t: t.clone().index_fill_(0, torch.tensor([0]), -0.0)),
    ],
)
def test_any_change_changes_the_digest(name, change):
    before = state()
    assert weights.digest(before) != weights.digest({**before, name: change(before[name])})


def test_each_load_is_a_module_of_its_own(tmp_path, cache):
    """Backends convert the module in place."""
    first = load_file(tmp_path, cache, state())
    first.module.half()
    second = weights.load(network(), str(tmp_path), cache)
    assert second.module[0].weight.dtype == torch.float32
    assert second.digest == first.digest


def test_half_precision_and_strided_tensors_become_plain_fp32(tmp_path, cache):
    content = {k: v.half() if v.is_floating_point() else v for k, v in state().items()}
    content["0.weight"] = content["0.weight"].to(memory_format=torch.channels_last)
    loaded = load_file(tmp_path, cache, content)
    assert loaded.module[0].weight.dtype == torch.float32
    assert loaded.module[0].weight.is_contiguous()
    assert loaded.digest == weights.digest(state())


def test_old_files_without_counters_of_batches_fit(tmp_path, cache):
    content = state()
    del content["1.num_batches_tracked"]
    assert load_file(tmp_path, cache, content).trained


def test_parts_that_are_left_out_are_left_out(tmp_path, cache):
    content = {**state(), "aux1.weight": torch.ones(1)}
    loaded = load_file(tmp_path, cache, content, left_out=("aux1.",))
    assert loaded.digest == weights.digest(state())


def test_files_are_taken_in_the_order_of_their_suffixes(tmp_path, cache):
    torch.save(state(0.1), tmp_path / "tiny.pt")
    assert weights.load(network(), str(tmp_path), cache).weights == "file tiny.pt"
    torch.save(state(), tmp_path / "tiny.pth")
    assert weights.load(network(), str(tmp_path), cache).weights == "file tiny.pth"


def test_safetensors_are_read_where_the_package_is_there(tmp_path, cache, monkeypatch):
    (tmp_path / "tiny.safetensors").write_bytes(b"")
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    with pytest.raises(WeightsError, match="pip install safetensors"):
        weights.load(network(), str(tmp_path), cache)
    package, reader = types.ModuleType("safetensors"), types.ModuleType("safetensors.torch")
    reader.load_file = lambda path: state()
    monkeypatch.setattr(weights, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "safetensors", package)
    monkeypatch.setitem(sys.modules, "safetensors.torch", reader)
    loaded = weights.load(network(), str(tmp_path), cache)
    assert loaded.weights == "file tiny.safetensors"


def test_a_missing_file_lists_what_was_looked_for_and_what_is_there(tmp_path, cache):
    (tmp_path / "resnet50.pth").write_bytes(b"")
    with pytest.raises(WeightsError) as caught:
        weights.load(network(), str(tmp_path), cache)
    for text in ("tiny.pth", "tiny.pt", "tiny.safetensors", "found", "resnet50.pth"):
        assert text in str(caught.value)


def test_a_network_with_weights_of_its_own_falls_back_to_them(tmp_path, cache):
    for asked in ("auto", "torchvision", str(tmp_path)):
        assert weights.load(network(own=own), asked, cache).weights == "its package"
    assert load_file(tmp_path, cache, state(), own=own).weights == "file tiny.pth"
    assert not weights.load(network(own=own), "random", cache).trained


def test_auto_is_random_where_there_is_nothing_else(cache):
    loaded = weights.load(network(), "auto", cache)
    assert loaded.weights == "random (seed 0)"
    assert not loaded.trained


def test_torchvision_without_such_weights_is_refused(cache):
    with pytest.raises(WeightsError, match="no pretrained weights of tiny"):
        weights.load(network(), "torchvision", cache)


@pytest.mark.parametrize("name", ["torchvison", "missing/folder"])
def test_a_folder_that_does_not_exist_is_refused(name, tmp_path, cache):
    with pytest.raises(WeightsError, match="does not exist"):
        weights.load(network(own=own), str(tmp_path / name), cache)


def test_a_file_in_place_of_its_folder_is_refused(tmp_path, cache):
    file = tmp_path / "tiny.pth"
    torch.save(state(), file)
    with pytest.raises(WeightsError, match="is a file: give the folder"):
        weights.load(network(), str(file), cache)


def test_keys_that_do_not_match_are_named_and_not_by_the_hundred(tmp_path, cache):
    content = {f"module.{name}": tensor for name, tensor in state().items()}
    with pytest.raises(WeightsError, match=r"missing 0\.weight, .* and 3 more") as caught:
        load_file(tmp_path, cache, content)
    assert "unexpected module.0.weight" in str(caught.value)
    assert len(str(caught.value)) < 600


def test_shapes_that_do_not_match_are_named(tmp_path, cache):
    with pytest.raises(WeightsError, match=r"5\.bias \(7,\) instead of \(10,\)"):
        load_file(tmp_path, cache, {**state(), "5.bias": torch.zeros(7)})


def test_integers_in_place_of_weights_are_named(tmp_path, cache):
    with pytest.raises(WeightsError, match=r"types differ: 5\.bias torch\.int8"):
        load_file(tmp_path, cache, {**state(), "5.bias": torch.zeros(10, dtype=torch.int8)})


@pytest.mark.parametrize(
    "content", [[1, 2], {"state_dict": {"0.weight": 1.0}, "epoch": 3}, torch.ones(3)]
)
def test_what_is_no_state_dict_is_refused(content, tmp_path, cache):
    with pytest.raises(WeightsError, match="is not a state_dict"):
        load_file(tmp_path, cache, content)


class Mischief:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (open, (self.target, "w"))


@pytest.mark.parametrize("save", [torch.save, lambda o, p: p.write_bytes(pickle.dumps(o))])
def test_objects_are_never_unpickled(save, tmp_path, cache):
    target = tmp_path / "written"
    save({"0.weight": Mischief(str(target))}, tmp_path / "tiny.pth")
    with pytest.raises(WeightsError, match=r"not loaded, since that could run code"):
        weights.load(network(), str(tmp_path), cache)
    assert not target.exists()


def test_a_whole_pickled_module_is_refused(tmp_path, cache):
    with pytest.raises(WeightsError, match="state_dict"):
        load_file(tmp_path, cache, torch.nn.Linear(2, 2))


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[: len(b) // 2], lambda b: b"x" * 99])
def test_a_damaged_file_is_refused_by_name(damage, tmp_path, cache):
    file = tmp_path / "tiny.pth"
    torch.save(state(), file)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(WeightsError, match=r"tiny\.pth"):
        weights.load(network(), str(tmp_path), cache)


def test_memory_that_runs_out_is_no_damage(tmp_path, cache, monkeypatch):
    def refused(*args, **kwargs):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    torch.save(state(), tmp_path / "tiny.pth")
    monkeypatch.setattr(torch, "load", refused)
    with pytest.raises(RuntimeError, match=r"^DefaultCPUAllocator"):
        weights.load(network(), str(tmp_path), cache)


def test_the_digest_does_not_need_a_contiguous_tensor():
    plain = {"w": torch.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))}
    strided = {"w": plain["w"].T.contiguous().T}
    assert not strided["w"].is_contiguous()
    assert weights.digest(strided) == weights.digest(plain)
