"""Weights of a network: random, its own, torchvision's, or a folder's; never unpickled freely."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchrack.api import Cache, LoadedModel, Preprocessing, WeightsError, ran_out

if TYPE_CHECKING:
    import torch

SUFFIXES = (".pth", ".pt", ".safetensors")
SHOWN = 4  # names in an error message


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A state_dict and where it comes from. `digest` is given where it is known already."""

    origin: str
    trained: bool
    state: Mapping[str, torch.Tensor]
    digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """An architecture, and the sources of its weights.

    `build` returns it on torch's meta device, where nothing is allocated and no random number
    drawn; it imports what it needs before it makes that device the default. `own` are weights that
    come with the network, `pretrained` those that torchvision offers. Tensors of a file whose
    names start with one of `left_out` belong to parts that `build` leaves out. `residual_norms`
    ends the names of the normalisations that close a residual branch.
    """

    name: str
    input_shape: tuple[int, int, int]
    preprocessing: Preprocessing
    build: Callable[[], torch.nn.Module]
    own: Callable[[Cache], Weights] | None = None
    pretrained: Callable[[], Weights] | None = None
    left_out: tuple[str, ...] = ()
    residual_norms: str | None = None

    def meta_module(self) -> torch.nn.Module:
        """The network in evaluation mode, without storage."""
        return self.build().eval().requires_grad_(False)


def load(network: Network, weights: str, cache: Cache) -> LoadedModel:
    """The network with the weights asked for: `auto`, `random`, `torchvision`, or a folder.

    Raises WeightsError where they are missing, damaged, can't be read safely, or do not fit.
    """
    chosen = _choose(network, weights, cache)
    module = network.meta_module()
    operations = multiply_accumulates(module, network.input_shape)
    state = _fitted(network, chosen, module.state_dict())
    module.load_state_dict(state, assign=True)
    return LoadedModel(
        module=module,
        weights=chosen.origin,
        digest=chosen.digest or digest(module.state_dict()),
        trained=chosen.trained,
        parameters=sum(parameter.numel() for parameter in module.parameters()),
        multiply_accumulates=operations,
    )


def multiply_accumulates(module: torch.nn.Module, input_shape: tuple[int, int, int]) -> int:
    """Those of convolutions and matrix products for one image. The module is on the meta device."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        module(torch.empty((1, *input_shape), device="meta"))
    return int(counter.get_total_flops()) // 2


def digest(state: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 over names, dtypes, shapes and bytes of all tensors, in the order of their names."""
    import torch

    result = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        result.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        result.update(flat.view(torch.uint8).numpy())
    return result.hexdigest()


def _choose(network: Network, weights: str, cache: Cache) -> Weights:
    from benchrack.plugins.models import random_weights

    if weights == "random" or (weights == "auto" and network.own is None):
        return random_weights.make(network, cache)
    if weights == "torchvision" and network.pretrained is not None:
        return network.pretrained()
    if weights not in ("auto", "torchvision"):
        folder = Path(weights).expanduser()
        file = _find(folder, network.name)
        if file is not None:
            return Weights(origin=f"file {file.name}", trained=True, state=read_state(file))
        if network.own is None:
            raise WeightsError(_missing(folder, network.name))
    if network.own is None:
        raise WeightsError(f"torchvision has no pretrained weights of {network.name}")
    return network.own(cache)


def _find(folder: Path, name: str) -> Path | None:
    if not folder.is_dir():
        what = "is a file: give the folder that holds it" if folder.is_file() else "does not exist"
        raise WeightsError(
            f"--weights={folder}: {what}. Weights are auto, random, torchvision, or a folder of "
            f"state_dicts named by model ({name}.pth)"
        )
    return next((f for suffix in SUFFIXES if (f := folder / f"{name}{suffix}").is_file()), None)


def _missing(folder: Path, name: str) -> str:
    looked_for = ", ".join(f"{name}{suffix}" for suffix in SUFFIXES)
    there = sorted(entry.name for entry in folder.iterdir())
    return f"no weights of {name} in {folder}: looked for {looked_for}; found {_some(there)}"


def read_state(path: Path) -> Mapping[str, torch.Tensor]:
    """The state_dict in a file, on the CPU. Raises WeightsError; objects are never unpickled."""
    import pickle

    import torch

    try:
        state: Any
        if path.suffix == ".safetensors":
            if find_spec("safetensors") is None:
                raise WeightsError(f"{path} needs safetensors: pip install safetensors")
            state = import_module("safetensors.torch").load_file(path)
        else:
            with warnings.catch_warnings():  # about pickle protocols, before it refuses a file
                warnings.simplefilter("ignore")
                state = torch.load(path, map_location="cpu", weights_only=True)
    except (WeightsError, MemoryError):
        raise
    except pickle.UnpicklingError as error:
        raise WeightsError(
            f"{path} holds more than tensors, or is no file of torch.save: it is not loaded, since "
            "that could run code. Save it with torch.save(model.state_dict(), path)"
        ) from error
    except Exception as error:  # a damaged file can make the reader stumble over anything
        if ran_out(str(error)):
            raise
        reason = (str(error).splitlines() or [""])[0][:200]
        raise WeightsError(
            f"{path} can't be read as weights, it may be damaged: {type(error).__name__}: {reason}"
        ) from error
    if not isinstance(state, Mapping) or not all(
        isinstance(value, torch.Tensor) for value in state.values()
    ):
        found = f"a mapping of {_some(state)}" if isinstance(state, Mapping) else type(state)
        raise WeightsError(
            f"{path} is not a state_dict, names to tensors, but {found}. Save it with "
            "torch.save(model.state_dict(), path)"
        )
    return state


def _fitted(
    network: Network, weights: Weights, expected: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The tensors that the network expects, as FP32 where it has FP32."""
    import torch

    state = {k: v for k, v in weights.state.items() if not k.startswith(network.left_out)}
    for name in expected:
        if name.endswith("num_batches_tracked"):  # counts training steps; older files have none
            state.setdefault(name, torch.tensor(0))
    problems = []
    if missing := expected.keys() - state.keys():
        problems.append(f"missing {_some(missing)}")
    if unexpected := state.keys() - expected.keys():
        problems.append(f"unexpected {_some(unexpected)}")
    shapes = [
        f"{name} {tuple(state[name].shape)} instead of {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name in state and state[name].shape != tensor.shape
    ]
    if shapes:
        problems.append(f"shapes differ: {_some(shapes)}")
    types = [
        f"{name} {state[name].dtype}"
        for name, tensor in expected.items()
        if name in state and state[name].is_floating_point() != tensor.is_floating_point()
    ]
    if types:
        problems.append(f"types differ: {_some(types)}")
    if problems:
        raise WeightsError(
            f"{weights.origin} does not fit {network.name}: {'; '.join(problems)}. It must be the "
            f"state_dict of this architecture ({len(expected)} tensors)"
        )
    return {name: state[name].detach().to(t.dtype).contiguous() for name, t in expected.items()}


def _some(names: Iterable[Any]) -> str:
    listed = sorted(str(name) for name in names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return (", ".join(listed[:SHOWN]) or "nothing") + more
