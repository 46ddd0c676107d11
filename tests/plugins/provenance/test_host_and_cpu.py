"""What /proc and /sys say about CPU and host, on small trees as machines show them."""

from __future__ import annotations

import pytest

from benchrack.plugins.provenance import cpu, host

GIB = 1 << 30

XEON = """\
processor\t: {n}
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz
microcode\t: 0x2006e05
physical id\t: {socket}
core id\t\t: {core}
flags\t\t: fpu sse2 avx avx2 fma f16c avx512f avx512bw

"""
ARM = """\
processor\t: {n}
BogoMIPS\t: 2100.00
Features\t: fp asimd asimdhp asimddp i8mm bf16 sve
CPU implementer\t: 0x41

"""


def tree(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.fixture
def c4140(tmp_path):
    """Two sockets of two cores of two threads, as intel_pstate and DMI show them."""
    threads = [(n, n % 4 // 2, n % 2) for n in range(8)]
    cpus = "sys/devices/system/cpu"
    return tree(
        tmp_path,
        {
            "proc/cpuinfo": "".join(XEON.format(n=n, socket=s, core=c) for n, s, c in threads),
            "proc/meminfo": "MemTotal:       394772480 kB\nMemFree:        1000 kB\n",
            "proc/sys/kernel/hostname": "rack-7\n",
            "proc/sys/kernel/osrelease": "3.10.0-1160.el7.x86_64\n",
            "proc/self/status": "Name:\tpython\nCpus_allowed_list:\t0-7\n",
            "proc/self/cgroup": "4:memory:/jobs/17\n3:cpu,cpuacct:/\n0::/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes": f"{64 * GIB}\n",
            "sys/fs/cgroup/memory/jobs/17/memory.limit_in_bytes": f"{128 * GIB}\n",
            "sys/class/dmi/id/product_name": "PowerEdge C4140\n",
            "sys/class/dmi/id/sys_vendor": "Dell Inc.\n",
            "sys/class/dmi/id/bios_version": "2.10.2\n",
            "etc/os-release": 'NAME="CentOS Linux"\nPRETTY_NAME="CentOS Linux 7 (Core)"\n',
            "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
            f"{cpus}/smt/active": "1\n",
            f"{cpus}/intel_pstate/no_turbo": "0\n",
            f"{cpus}/cpufreq/policy0/scaling_governor": "performance\n",
            f"{cpus}/cpufreq/policy0/scaling_driver": "intel_pstate\n",
            f"{cpus}/cpufreq/policy0/cpuinfo_max_freq": "3700000\n",
            f"{cpus}/cpufreq/policy1/scaling_governor": "powersave\n",
            "sys/devices/system/node/node0/cpulist": "0,2,4,6\n",
            "sys/devices/system/node/node1/cpulist": "1,3,5,7\n",
        },
    )


def test_a_server_with_two_sockets(c4140):
    facts = cpu.gather(c4140)
    assert facts["model"] == "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz"
    assert (facts["sockets"], facts["cores"], facts["threads"]) == (2, 4, 8)
    assert facts["instruction_sets"] == ["avx", "avx2", "fma", "f16c", "avx512f", "avx512bw"]
    assert facts["microcode"] == "0x2006e05"
    assert (facts["numa_nodes"], facts["numa_cpus"]) == (2, ["0,2,4,6", "1,3,5,7"])
    assert facts["governors"] == ["performance", "powersave"]
    assert (facts["driver"], facts["clock_max_mhz"]) == ("intel_pstate", 3700.0)
    assert (facts["turbo"], facts["smt"]) == (True, True)


@pytest.mark.parametrize(
    ("files", "turbo"),
    [
        ({"intel_pstate/no_turbo": "1\n"}, False),
        ({"cpufreq/boost": "1\n"}, True),
        ({"cpufreq/boost": "0\n"}, False),
        ({}, None),
    ],
)
def test_turbo_of_intel_and_others(tmp_path, files, turbo):
    tree(tmp_path / "sys/devices/system/cpu", files)
    assert cpu.gather(tmp_path)["turbo"] is turbo


def test_an_arm_cpu(tmp_path):
    """It names neither model nor sockets nor cores."""
    tree(tmp_path, {"proc/cpuinfo": "".join(ARM.format(n=n) for n in range(4))})
    facts = cpu.gather(tmp_path)
    assert (facts["model"], facts["sockets"], facts["cores"], facts["threads"]) == (None, 1, 4, 4)
    assert facts["instruction_sets"] == ["asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve"]


def test_a_machine_that_shows_nothing(tmp_path):
    """Empty, and never zero."""
    facts = cpu.gather(tmp_path) | host.gather(tmp_path, {})
    known = ("usable_cores", "architecture", "virtual")
    assert {k: v for k, v in facts.items() if v not in (None, []) and k not in known} == {}


def test_the_host(c4140):
    facts = host.gather(c4140, {})
    assert (facts["node"], facts["vendor"], facts["product"]) == (
        "rack-7",
        "Dell Inc.",
        "PowerEdge C4140",
    )
    assert facts["memory_gib"] == pytest.approx(376.48)
    assert facts["kernel"] == "3.10.0-1160.el7.x86_64"
    assert facts["system"] == "CentOS Linux 7 (Core)"
    assert (facts["container"], facts["virtual"]) == (None, False)
    assert facts["cpus_allowed"] == "0-7"
    assert "0123456789" not in facts["machine_id_hash"]


def test_the_tightest_memory_limit_counts_v1(c4140):
    assert host.gather(c4140, {})["cgroup_memory_gib"] == 64.0


def test_the_tightest_memory_limit_counts_v2(tmp_path):
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/kubepods/pod1\n",
            "sys/fs/cgroup/kubepods/memory.max": f"{32 * GIB}\n",
            "sys/fs/cgroup/kubepods/pod1/memory.max": f"{8 * GIB}\n",
            "sys/fs/cgroup/kubepods/cpu.max": "250000 100000\n",
        },
    )
    facts = host.gather(tmp_path, {})
    assert (facts["cgroup_memory_gib"], facts["cgroup_cpus"]) == (8.0, 2.5)


@pytest.mark.parametrize("content", ["max\n", "9223372036854771712\n", ""])
def test_no_memory_limit(tmp_path, content):
    tree(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": content})
    assert host.gather(tmp_path, {})["cgroup_memory_gib"] is None


@pytest.mark.parametrize(
    ("files", "environment", "kind"),
    [
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({"proc/1/cgroup": "1:cpu:/kubepods/besteffort/pod7\n"}, {}, "kubernetes"),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"proc/1/cgroup": "1:cpu:/docker/3f2a\n"}, {}, "docker"),
        ({"proc/1/cgroup": "1:cpu:/lxc/ct\n"}, {}, "lxc"),
        ({"run/systemd/container": "systemd-nspawn\n"}, {}, "systemd-nspawn"),
        ({}, {"APPTAINER_CONTAINER": "image.sif"}, "apptainer"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, {}, None),
    ],
)
def test_signs_of_containers(tmp_path, files, environment, kind):
    assert host.container(tree(tmp_path, files), environment) == kind


def test_a_product_without_a_name(tmp_path):
    tree(tmp_path, {"sys/class/dmi/id/product_name": "To Be Filled By O.E.M.\n"})
    assert host.gather(tmp_path, {})["product"] is None
