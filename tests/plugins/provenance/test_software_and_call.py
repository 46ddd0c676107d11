"""Versions without importing frameworks, and a call without secrets."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchrack.plugins.provenance import call, software


def test_versions_come_without_importing_frameworks():
    code = (
        "import sys; from benchrack.plugins.provenance import software, call;"
        "facts = software.gather() | call.gather(); print(facts['pytest']);"
        "print(sorted({'torch', 'numpy', 'onnxruntime', 'pynvml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [pytest.__version__, "[]"]


@pytest.mark.parametrize(
    "distribution",
    [
        *("tensorrt", "tensorrt-libs", "tensorrt-cu11-libs", "tensorrt-cu12", "tensorrt-cu12-libs"),
        *("tensorrt-cu13-libs", "nvidia-cudnn-cu13", "nvidia-cudnn-cu11", "onnxruntime-gpu"),
    ],
)
def test_the_libraries_of_a_card_have_versions_by_any_name(monkeypatch, distribution):
    """`benchrack[tensorrt]` brings tensorrt-cu13-libs and nothing else of TensorRT."""

    def version(name):
        if name != distribution:
            raise software.metadata.PackageNotFoundError(name)
        return "10.13.3.9"

    monkeypatch.setattr(software.metadata, "version", version)
    facts = software.gather()
    assert facts[distribution.replace("-", "_")] == "10.13.3.9"


def test_only_variables_that_matter_and_no_secrets():
    environment = {
        "OMP_NUM_THREADS": "8",
        "KMP_AFFINITY": "compact",
        "MKL_NUM_THREADS": "4",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "NVIDIA_TF32_OVERRIDE": "0",
        "LD_LIBRARY_PATH": "/opt/tensorrt-8.6/lib",
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "HF_TOKEN": "hidden",
        "CUDA_TOKEN": "hidden",
        "TORCH_HOME": "hidden",
        "NVIDIA_API_KEY": "hidden",
        "MY_OMP_KEY": "hidden",
        "LD_PRELOAD_TOKEN": "hidden",
        "PATH": "hidden",
    }
    assert call.gather(environment)["environment"] == [
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES=0,1",
        "KMP_AFFINITY=compact",
        "LD_LIBRARY_PATH=/opt/tensorrt-8.6/lib",
        "MKL_NUM_THREADS=4",
        "NVIDIA_TF32_OVERRIDE=0",
        "OMP_NUM_THREADS=8",
    ]


def test_the_command_hides_passwords():
    word = "--benchmark-storage=elasticsearch+https://me:secret@host:9200/index"
    command = call.gather({}, ["pytest", "-m", "inference", word])["command"]
    assert command[:3] == ["pytest", "-m", "inference"]
    assert command[3] == "--benchmark-storage=elasticsearch+https://…@host:9200/index"


@pytest.fixture
def checkout(tmp_path):
    def git(*arguments):
        subprocess.run(
            ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
            check=True,
            capture_output=True,
        )

    git("init")
    (tmp_path / "file").write_text("1")
    git("add", ".")
    git("commit", "-m", "one")
    return tmp_path


def test_the_commit_of_the_checkout(checkout):
    facts = call.gather({}, ["x"], checkout)
    assert len(facts["git_commit"]) == 40
    assert facts["git_dirty"] is False
    (checkout / "file").write_text("2")
    assert call.gather({}, ["x"], checkout)["git_dirty"] is True


def test_uncommitted_changes_have_a_digest(checkout):
    """Equal for equal changes only; also for text that is not UTF-8."""
    changes = [call.gather({}, ["x"], checkout)["git_changes"]]
    for text in (b"2", b"\xff\xfe", b"2"):
        (checkout / "file").write_bytes(text)
        changes.append(call.gather({}, ["x"], checkout)["git_changes"])
    assert changes[0] is None
    assert None not in changes[1:]
    assert changes[1] == changes[3] != changes[2]


def test_installed_from_a_wheel_there_is_no_commit(tmp_path):
    assert "git_commit" not in call.gather({}, ["x"], tmp_path)


def test_a_checkout_that_git_refuses(tmp_path):
    (tmp_path / ".git").mkdir()
    facts = call.gather({}, ["x"], tmp_path)
    assert (facts["git_commit"], facts["git_dirty"]) == (None, None)


def test_without_git(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert call.gather({}, ["x"], checkout)["git_commit"] is None
