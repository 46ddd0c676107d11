"""Versions of the libraries that a process has loaded, asked of libraries made for the test."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from benchrack.plugins.backends.cuda_libraries import loaded_versions

SOURCES = {
    "libcudart.so.12": "int cudaRuntimeGetVersion(int *v) { *v = 12060; return 0; }",
    "libcublas.so.12": "int cublasGetProperty(int k, int *v) { *v = 12 - 5 * k; return 0; }",
    "libcudnn.so.9": "unsigned long cudnnGetVersion(void) { return 91002; }",
    "libcudnn.so.8": "unsigned long cudnnGetVersion(void) { return 8907; }",
    "libnvinfer.so.8": "int getInferLibVersion(void) { return 8601; }",
    "libnvinfer.so.10": "int getInferLibVersion(void) { return 101303; }",
    "libcudnn_ops.so.9": "int another_library_of_cudnn;",
    "libcublasLt.so.12": "int another_library_of_cublas;",
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """The folder with the libraries."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("a folder of its own")
    for name, source in SOURCES.items():
        command = [compiler, "-shared", "-fPIC", "-o", folder / name, "-x", "c", "-"]
        subprocess.run(command, input=source, text=True, check=True)
    return folder


def versions(libraries, *loaded, tensorrt=True):
    """In a process that has loaded some of them."""
    asked = f"tensorrt={tensorrt}"
    code = (
        "import ctypes, sys\n"
        "kept = [ctypes.CDLL(path) for path in sys.argv[1:]]\n"
        "from benchrack.plugins.backends.cuda_libraries import loaded_versions\n"
        f"print(*loaded_versions({asked}), sep='\\n')\n"
    )
    paths = [str(libraries / name) for name in loaded]
    done = subprocess.run(
        [sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_what_is_loaded_tells_its_version(libraries):
    """CUDA 12 with cuDNN 9 and TensorRT 10, of packages; the order of loading does not count."""
    loaded = ("libnvinfer.so.10", "libcudnn_ops.so.9", "libcudnn.so.9", "libcublas.so.12")
    assert versions(libraries, *loaded, "libcudart.so.12", "libcublasLt.so.12") == [
        *("CUDA runtime 12.6", "cuBLAS 12.7.2", "cuDNN 9.10.2", "TensorRT 10.13.3"),
    ]


def test_older_libraries_of_the_system_count_as_well(libraries):
    """cuDNN 8 and TensorRT 8.6, whose numbers are packed otherwise: the stack cuda11."""
    assert versions(libraries, "libcudnn.so.8", "libnvinfer.so.8") == [
        *("cuDNN 8.9.7", "TensorRT 8.6.1"),
    ]


def test_tensorrt_is_for_who_uses_it(libraries):
    """Another session of the same process may have loaded it."""
    loaded = ("libcudnn.so.9", "libnvinfer.so.10")
    assert versions(libraries, *loaded, tensorrt=False) == ["cuDNN 9.10.2"]


def test_two_versions_in_one_process_are_both_told(libraries):
    assert versions(libraries, "libcudnn.so.8", "libcudnn.so.9") == ["cuDNN 8.9.7", "cuDNN 9.10.2"]


def test_nothing_is_loaded_for_it(libraries):
    assert versions(libraries) == [""]


def test_a_library_of_that_name_without_the_function_tells_nothing(libraries):
    (libraries / "libcudnn.so.7").write_bytes((libraries / "libcudnn_ops.so.9").read_bytes())
    assert versions(libraries, "libcudnn.so.7") == [""]


def test_where_the_system_does_not_tell_nothing_is_known(tmp_path):
    assert loaded_versions(maps=tmp_path / "maps") == ()


def test_a_file_that_is_gone_since_is_passed_over(tmp_path):
    """An upgrade under a running process; its path has a space."""
    (tmp_path / "maps").write_text(
        "7f0000000000-7f0000001000 r-xp 00000000 08:01 42   /a folder/libcudnn.so.9 (deleted)\n"
        "7f0000002000-7f0000003000 r-xp 00000000 08:01 43   /gone/libcudnn.so.9\n"
        "7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0    [stack]\n"
        "7f0000004000-7f0000005000 rw-p 00000000 00:00 0 \n"
    )
    assert loaded_versions(maps=tmp_path / "maps") == ()
