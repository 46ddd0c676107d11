"""Made-up machines: /proc and /sys as folders."""

from __future__ import annotations

from pathlib import Path

import pytest

CPUINFO = """\
processor\t: {thread}
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz
physical id\t: {socket}
core id\t\t: {core}
flags\t\t: fpu sse2 avx avx2 fma f16c avx512f avx512_vnni{more}

"""


class FakeRoot:
    """A folder that stands for `/`, with what detection reads below it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def firmware(self, product: str, vendor: str = "Dell Inc.") -> None:
        self.write("sys/class/dmi/id/product_name", f"{product}\n")
        self.write("sys/class/dmi/id/sys_vendor", f"{vendor}\n")

    def cpus(self, sockets: int = 2, cores: int = 20, threads: int = 2, more: str = "") -> None:
        """`threads` a core, numbered as Linux does: the second thread of all cores comes last."""
        paragraphs = [
            CPUINFO.format(
                thread=(thread * sockets + socket) * cores + core,
                socket=socket,
                core=core,
                more=more,
            )
            for thread in range(threads)
            for socket in range(sockets)
            for core in range(cores)
        ]
        self.write("proc/cpuinfo", "".join(paragraphs))
        self.write("proc/meminfo", "MemTotal:       394837196 kB\nMemFree:        1000 kB\n")

    def pci_device(self, address: str, device: str, kind: str = "0x030200") -> None:
        self.write(f"sys/bus/pci/devices/{address}/vendor", "0x10de\n")
        self.write(f"sys/bus/pci/devices/{address}/device", f"0x{device}\n")
        self.write(f"sys/bus/pci/devices/{address}/class", f"{kind}\n")


@pytest.fixture
def root(tmp_path: Path) -> FakeRoot:
    return FakeRoot(tmp_path / "root")
