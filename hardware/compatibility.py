"""Does the installed software have kernels for a card, and if not: which stack does?

Plain functions over versions and names of architectures; the facts are in compatibility.toml, each
with its source. Compute capabilities are NVIDIA's `major.minor`, `6.1` for the P4 and P40.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Framework = Literal["pytorch", "onnxruntime"]
Facts = Mapping[str, Any]

NO_STACK = "No stack that Benchrack knows serves this card and driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledStack:
    """The versions that are installed, None where they are not, or not known.

    `torch_kernels` is `torch._C._cuda_getArchFlags().split()` (`sm_75`, `compute_90`, …): what the
    build has kernels for, also without a usable card. `torch_cuda` is None for a build without
    CUDA.
    """

    torch: str | None = None
    torch_cuda: str | None = None
    torch_kernels: tuple[str, ...] = ()
    onnxruntime: str | None = None
    tensorrt: str | None = None


@dataclass(frozen=True, slots=True)
class _Wish:
    """What shall compute what on which card; `driver_cuda` is None where nothing is known."""

    capability: str
    framework: Framework
    precision: str
    driver_cuda: str | None

    @property
    def backend(self) -> str:
        return f"{self.framework}-{self.precision}"


def unsupported_reason(
    capability: str,
    installed: InstalledStack,
    *,
    framework: Framework = "pytorch",
    precision: str = "fp32",
    driver_cuda: str | None = None,
) -> str | None:
    """Why a framework that is installed can't compute on a card, with the command that installs a
    stack that can; None where nothing speaks against it.

    `driver_cuda` is the highest CUDA that the driver serves, `12.8`. INT8 in ONNX Runtime means
    its TensorRT provider. What is not known is no reason: the run will tell.
    """
    facts = _facts()
    wish = _Wish(capability, framework, precision, driver_cuda)
    if hopeless := _precision_reason(facts, wish):
        return hopeless
    reason = next(_reasons(facts, wish, installed), None)
    if reason is None:
        return None
    if (stack := _stack_for(facts, wish)) is None:
        return f"{reason}. {NO_STACK}"
    return f"{reason}. The stack {stack['name']} does: {_command(wish, stack)}"


def remedy(
    capability: str,
    *,
    framework: Framework = "pytorch",
    precision: str = "fp32",
    driver_cuda: str | None = None,
) -> str | None:
    """The command that installs a stack for a card which the current wheels, those that pip brings
    unasked, do not serve, with the reason; or the reason alone, where nothing serves it. None where
    they do serve it."""
    facts = _facts()
    wish = _Wish(capability, framework, precision, driver_cuda)
    if hopeless := _precision_reason(facts, wish):
        return f"nothing helps, {hopeless}"
    reason = next(_reasons(facts, wish, _stack(facts["current"])), None)
    if reason is None:
        return None
    if (stack := _stack_for(facts, wish)) is None:
        return f"nothing helps, {reason}. {NO_STACK}"
    why, _, _ = reason.partition(" (only ")
    return f"{_command(wish, stack)} (the stack {stack['name']}: {why})"


def tensorrt_for(onnxruntime: str) -> str:
    """The TensorRT that a version of onnxruntime-gpu links, and how to get it."""
    facts = _facts()
    builds = _onnxruntime_builds(facts, onnxruntime)
    if not builds:
        return f"the TensorRT that onnxruntime-gpu {onnxruntime} links (from NVIDIA)"
    links = _links(builds[0])
    for stack in (facts["current"], *facts["stack"]):
        if _links(_onnxruntime_builds(facts, stack["onnxruntime"])[0]) == links:
            return _tensorrt(stack)
    cuda, tensorrt = links
    return f"TensorRT {tensorrt} for CUDA {cuda} (from NVIDIA, onto the loader's path)"


def _tensorrt(stack: Mapping[str, Any]) -> str:
    return f"TensorRT {stack['tensorrt']} ({stack['tensorrt_how']})"


def _links(build: Mapping[str, Any]) -> tuple[str, str]:
    return build["cuda"], build["tensorrt"]


def install_command(stack: str, checkout: Path | None = None) -> str:
    """The pip command that installs a stack: by its constraints file in a checkout (by default
    the one that this code is in, if it is), else by its pins. Raises KeyError for another name."""
    pins = {s["name"]: s["pins"] for s in _facts()["stack"]}[stack]
    if _is_checkout(checkout, stack):
        return f"pip install -c constraints/{stack}.txt -e '.[all]'"
    return "pip install " + " ".join(map(shlex.quote, ("benchrack[all]", *pins)))


def _command(wish: _Wish, stack: Mapping[str, Any]) -> str:
    """The command for a stack, beside it tox's where it has an environment of that backend."""
    parts = [install_command(stack["name"])]
    if wish.backend in stack["tox"] and _is_checkout(None, stack["name"]):
        parts.append(f"or tox -e {wish.backend}-{stack['name']}")
    if wish.precision == "int8":
        parts.append(f"with {_tensorrt(stack)}")
    return f"{', '.join(parts)}; see docs/old-cards.md"


def _is_checkout(folder: Path | None, stack: str) -> bool:
    folder = folder or Path(__file__).parent.parent
    return (folder / "constraints" / f"{stack}.txt").is_file()


def has_kernels(capability: str, kernels: Iterable[str]) -> bool:
    """Whether code for these architectures runs on a card.

    `sm_XY` runs on the same major capability from X.Y on (sm_60 on 6.1, not on 7.0); `compute_XY`,
    PTX, on every card from X.Y on; with a suffix `a` both on X.Y alone.
    """
    return any(_runs(_version(capability), kernel) for kernel in kernels)


def _runs(card: tuple[int, ...], kernel: str) -> bool:
    parsed = re.fullmatch(r"(sm|compute)_(\d+)(\d)([a-z]?)", kernel)
    if not parsed:
        return False
    built = (int(parsed[2]), int(parsed[3]))
    if parsed[4] == "a":
        return card == built
    return card >= built and (parsed[1] == "compute" or card[0] == built[0])


def _reasons(facts: Facts, wish: _Wish, installed: InstalledStack) -> Iterator[str]:
    """The reasons against, the ones that no driver can cure first."""
    if wish.framework == "pytorch":
        yield from _torch_reasons(facts, wish, installed)
    else:
        yield from _onnxruntime_reasons(facts, wish, installed)
        if wish.precision == "int8":
            yield from _tensorrt_reasons(facts, wish, installed)


def _precision_reason(facts: Facts, wish: _Wish) -> str | None:
    """What no software can cure."""
    for rule in facts["precision"]:
        if rule["name"] == wish.precision and _version(wish.capability) < _version(rule["first"]):
            return (
                f"cards of compute capability {wish.capability} have no {rule['what']}, which "
                f"{wish.precision.upper()} needs; they came with {rule['first']}"
            )
    return None


def _torch_reasons(facts: Facts, wish: _Wish, installed: InstalledStack) -> Iterator[str]:
    if installed.torch is None:
        return
    name = f"PyTorch {installed.torch}"
    if installed.torch_cuda is None:
        yield f"{name} is a build without CUDA"
        return
    kernels = installed.torch_kernels
    if kernels and not has_kernels(wish.capability, kernels):
        yield _lacks(name, wish, kernels)
    yield from _driver_reasons(facts, wish, name, installed.torch_cuda)


def _onnxruntime_reasons(facts: Facts, wish: _Wish, installed: InstalledStack) -> Iterator[str]:
    if installed.onnxruntime is None:
        return
    name = f"onnxruntime-gpu {installed.onnxruntime}"
    builds = _onnxruntime_builds(facts, installed.onnxruntime)
    if builds and not any(_covers(build, wish.capability) for build in builds):
        yield _lacks(name, wish, builds[0]["kernels"])
    if len({build["cuda"] for build in builds}) == 1:
        yield from _driver_reasons(facts, wish, name, builds[0]["cuda"])


def _tensorrt_reasons(facts: Facts, wish: _Wish, installed: InstalledStack) -> Iterator[str]:
    """Against the TensorRT that is installed, or else all that this ONNX Runtime can load."""
    builds = _onnxruntime_builds(facts, installed.onnxruntime or "")
    if installed.tensorrt:
        version, what = installed.tensorrt, installed.tensorrt
    elif builds:
        version = f"{builds[0]['tensorrt']}.0"
        what = f"{builds[0]['tensorrt']}, which this ONNX Runtime needs,"
    else:
        return
    for rule in facts["tensorrt"]:
        last = _version(rule["last"])
        too_old = _version(wish.capability) < _version(rule["older_than"])
        if too_old and _version(version)[: len(last)] > last:
            yield (
                f"TensorRT {what} does not know compute capability {wish.capability}; the last "
                f"that does is {rule['last']}"
            )
            return


def _driver_reasons(facts: Facts, wish: _Wish, name: str, cuda: str) -> Iterator[str]:
    """Within a major version of CUDA, software runs on drivers made for an earlier minor one."""
    if wish.driver_cuda is None or _version(wish.driver_cuda)[0] >= _version(cuda)[0]:
        return
    first = {d["cuda"]: d["first"] for d in facts["driver"]}.get(str(_version(cuda)[0]))
    yield (
        f"{name} is built with CUDA {cuda}, and the NVIDIA driver serves CUDA {wish.driver_cuda} "
        f"at most: install driver {first or 'of a newer branch'}{' or later' if first else ''}"
    )


def _lacks(name: str, wish: _Wish, kernels: Iterable[str]) -> str:
    return (
        f"{name} has no kernels for compute capability {wish.capability} (only {' '.join(kernels)})"
    )


def _onnxruntime_builds(facts: Facts, version: str) -> list[dict[str, Any]]:
    """The build of that version, or those before and after it, whose facts bracket its own.

    Nothing for a version older than all that were read. One that is newer than all is taken for
    the newest, but may know newer cards too: CUDA drops old cards and never takes them back.
    """
    wanted = _version(version)
    builds = sorted(facts["onnxruntime"], key=lambda build: _version(build["version"]))
    before = [build for build in builds if _version(build["version"]) <= wanted]
    if not before or _version(before[-1]["version"]) == wanted:
        return before[-1:]
    if len(before) < len(builds):
        return builds[len(before) - 1 : len(before) + 1]
    return [before[-1] | {"newer_cards": True}]


def _covers(build: Mapping[str, Any], capability: str) -> bool:
    kernels: list[str] = build["kernels"]
    if build.get("newer_cards"):
        oldest = min(int(kernel.partition("_")[2]) for kernel in kernels)
        return has_kernels(capability, [*kernels, f"compute_{oldest}"])
    return has_kernels(capability, kernels)


def _stack_for(facts: Facts, wish: _Wish) -> Mapping[str, Any] | None:
    """The first stack that serves the card."""
    return next((stack for stack in facts["stack"] if _serves(facts, wish, stack)), None)


def _serves(facts: Facts, wish: _Wish, stack: Mapping[str, Any]) -> bool:
    if _version(wish.capability) > _version(stack["last_card"]):
        return False
    return next(_reasons(facts, wish, _stack(stack)), None) is None


def _stack(facts: Mapping[str, Any]) -> InstalledStack:
    """What a table of the facts, a stack's or the current wheels', installs."""
    return InstalledStack(
        torch=facts["torch"],
        torch_cuda=facts["torch_cuda"],
        torch_kernels=tuple(facts["torch_kernels"]),
        onnxruntime=facts["onnxruntime"],
        tensorrt=facts["tensorrt"],
    )


def _facts() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("compatibility.toml").read_text("utf-8"))


def _version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: (2, 14, 1) of `2.14.1+cu130`."""
    leading = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, leading[0].split("."))) if leading else ()
