"""Where processes run: shares of the CPU's cores, cards with the cores near them, all in words."""

import os
from pathlib import Path

import pytest
from fakes import nvml as fake

from benchrack.errors import UnsupportedError
from benchrack.machine import placement
from benchrack.machine.cgroups import cpu_quota
from benchrack.machine.placement import alone, bind, places, ranges, sysfs_address
from benchrack.machine.processors import cpu_list, physical_cores
from benchrack.vocabulary.devices import Device

CPU = Device(kind="cpu", name="cpu")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """`machine(nodes={0: "0-3"}, siblings={0: "0,4"}, cards={bus: (node, cpus)})` is a tree of the
    kernel's files whose CPUs are all allowed; `slots` names a slot by address."""

    def build(nodes, siblings=(), cards=(), slots=()):
        system = tmp_path / "sys/devices/system"
        for node, cpus in nodes.items():
            write(system / f"node/node{node}/cpulist", cpus)
        for cpu, text in dict(siblings).items():
            write(system / f"cpu/cpu{cpu}/topology/thread_siblings_list", text)
        for bus, (node, cpus) in dict(cards).items():
            write(tmp_path / f"sys/bus/pci/devices/{bus}/numa_node", node)
            write(tmp_path / f"sys/bus/pci/devices/{bus}/local_cpulist", cpus)
        for slot, address in dict(slots).items():
            write(tmp_path / f"sys/bus/pci/slots/{slot}/address", address)
        allowed = set().union(*(cpu_list(cpus) for cpus in nodes.values()))
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: allowed)
        return tmp_path

    return build


def write(path: Path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def test_the_cpu_is_split_into_equal_shares_and_the_rest_stays_idle(machine):
    root = machine({0: "0-6"})
    assert [place.cpus for place in places([CPU], 2, root)] == [(0, 1, 2), (3, 4, 5)]
    assert [place.cpus for place in places([CPU], 3, root)] == [(0, 1), (2, 3), (4, 5)]


def test_two_hyper_threads_are_one_core(machine):
    """As AMD and Intel number them: the second thread of each core comes after all first ones."""
    siblings = {cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)}
    root = machine({0: "0-7"}, siblings)
    assert [place.cpus for place in places([CPU], 2, root)] == [(0, 4, 1, 5), (2, 6, 3, 7)]
    with pytest.raises(UnsupportedError, match=r"5 devices .* 4 usable cores"):
        places([CPU], 5, root)


def test_a_share_stays_on_one_numa_node_where_it_fits(machine):
    """Nodes of which the kernel numbers every other CPU."""
    root = machine({0: "0,2,4,6", 1: "1,3,5,7"})
    found = places([CPU], 2, root)
    assert [place.cpus for place in found] == [(0, 2, 4, 6), (1, 3, 5, 7)]
    assert [place.description for place in found] == [
        "cpu, CPUs 0,2,4,6 of NUMA node 0",
        "cpu, CPUs 1,3,5,7 of NUMA node 1",
    ]


def test_a_quota_of_the_control_group_counts(machine):
    root = machine({0: "0-7"})
    write(root / "sys/fs/cgroup/cpu.max", "450000 100000")
    assert [place.cpus for place in places([CPU], 2, root)] == [(0, 1), (2, 3)]
    with pytest.raises(UnsupportedError, match="4 usable cores"):
        places([CPU], 5, root)


@pytest.mark.parametrize(
    ("mounted", "expected"),
    [
        ("cpu/slurm/job_7", 1.5),
        ("cpu/slurm", 1.5),  # set for the group above, and none for the own
        ("cpu", 1.5),  # a container, where the own group is the mount
        ("cpu/slurm/job_8", None),
        ("cpuset/slurm/job_7", None),
    ],
)
def test_a_quota_of_version_1_counts_in_the_own_group_and_above(tmp_path, mounted, expected):
    """As Slurm sets it on CentOS 7."""
    write(tmp_path / "proc/self/cgroup", "4:cpuset:/\n3:cpu,cpuacct:/slurm/job_7\n1:name=systemd:/")
    for folder, quota_us in (("cpu/slurm/job_7", -1), (mounted, 150_000)):
        write(tmp_path / "sys/fs/cgroup" / folder / "cpu.cfs_quota_us", quota_us)
        write(tmp_path / "sys/fs/cgroup" / folder / "cpu.cfs_period_us", 100_000)
    assert cpu_quota(tmp_path) == expected


def test_the_tightest_quota_counts(tmp_path):
    """Of both versions, as in a hybrid hierarchy."""
    write(tmp_path / "proc/self/cgroup", "3:cpu,cpuacct:/a/b\n0::/c")
    for folder, quota_us in (("cpu/a", 400_000), ("cpu/a/b", 300_000)):
        write(tmp_path / "sys/fs/cgroup" / folder / "cpu.cfs_quota_us", quota_us)
        write(tmp_path / "sys/fs/cgroup" / folder / "cpu.cfs_period_us", 100_000)
    assert cpu_quota(tmp_path) == 3.0
    write(tmp_path / "sys/fs/cgroup/c/cpu.max", "250000 100000")
    assert cpu_quota(tmp_path) == 2.5


def test_without_the_kernels_files_each_cpu_is_a_core(machine):
    machine({0: "0-3"})
    assert physical_cores({0, 1}, Path("/nowhere")) == [(0,), (1,)]


def cards_of(machine):
    return [
        Device(kind="cuda", index=index, name=card.name, uuid=card.uuid)
        for index, card in enumerate(machine.cards)
    ]


def address(card):
    return f"0000:{card.bus:02x}:00.0"


def test_cards_get_the_cores_near_them_in_equal_shares(machine, fake_nvml):
    """Four cards, two a NUMA node: those of one node share its cores."""
    library = fake.four_v100_sxm2()
    fake_nvml(library)
    devices = cards_of(library)
    buses = [address(card) for card in library.cards]
    near = {bus: (n // 2, f"{8 * (n // 2)}-{8 * (n // 2) + 7}") for n, bus in enumerate(buses)}
    root = machine({0: "0-7", 1: "8-15"}, cards=near, slots={"3": buses[1].rpartition(".")[0]})
    found = places(devices, 4, root)
    assert [ranges(place.cpus) for place in found] == ["0-3", "4-7", "8-11", "12-15"]
    assert [place.device for place in found] == devices
    first, second = found[0].description, found[1].description
    assert first.startswith(f"cuda:0 {devices[0].name}, PCI {buses[0]}, NUMA node 0, PCIe 3.0 ×16")
    assert first.endswith("CPUs 0-3 of NUMA node 0")
    assert "slot 3" in second
    assert "slot" not in first


def test_fewer_cards_than_asked_for_are_named(machine, fake_nvml):
    library = fake.four_v100_sxm2()
    fake_nvml(library)
    with pytest.raises(UnsupportedError, match="5 devices were asked for, 4 are used here"):
        places(cards_of(library), 5, machine({0: "0-7"}))


def test_links_between_cards_are_told(machine, fake_nvml):
    library = fake.four_v100_sxm2()
    fake_nvml(library)
    description = places(cards_of(library), 1, machine({0: "0-7"}))[0].description
    linked = [bus for bus in library.cards[0].nvlinks if bus is not None]
    for bus in set(linked):
        assert f"NVLink ×{linked.count(bus)} to 0000:{bus:02x}:00.0" in description


def test_cards_whose_place_nobody_knows_share_all_cores(machine):
    """No NVML, no files: as in many containers and virtual machines."""
    devices = [Device(kind="cuda", index=n, name="Tesla P4", uuid=f"GPU-{n}") for n in range(2)]
    found = places(devices, 2, machine({0: "0-3"}))
    assert [place.cpus for place in found] == [(0, 1), (2, 3)]
    assert found[1].description == "cuda:1 Tesla P4, CPUs 2-3 of NUMA node 0"


def test_more_cards_than_cores_are_not_bound(machine):
    devices = [Device(kind="cuda", index=n, name="Tesla P4", uuid=f"GPU-{n}") for n in range(3)]
    found = places(devices, 3, machine({0: "0-1"}))
    assert [place.cpus for place in found] == [(), (), ()]
    assert found[0].description == "cuda:0 Tesla P4, not bound to CPUs"


def test_cores_near_a_card_that_this_process_may_not_use_are_left_out(machine, fake_nvml):
    library = fake.four_v100_sxm2()
    fake_nvml(library)
    near = {address(library.cards[0]): (0, "0-15")}
    found = places(cards_of(library), 1, machine({0: "0-3"}, cards=near))
    assert found[0].cpus == (0, 1, 2, 3)


@pytest.mark.parametrize("call", ["nvmlDeviceGetNvLinkState", "nvmlDeviceGetCurrPcieLinkWidth"])
def test_a_link_that_can_not_be_asked_leaves_the_card_its_place(
    machine, fake_nvml, monkeypatch, call
):
    """Such as a driver that answers "unknown error" for one link."""
    library = fake.four_v100_sxm2()
    module = fake_nvml(library)

    def fail(*arguments):
        raise module.NVMLError(module.NVML_ERROR_UNKNOWN)

    monkeypatch.setattr(module, call, fail)
    bus = address(library.cards[0])
    (found,) = places(cards_of(library), 1, machine({0: "0-3", 1: "4-7"}, cards={bus: (1, "4-7")}))
    assert found.cpus == (4, 5, 6, 7)
    assert f"PCI {bus}, NUMA node 1" in found.description
    assert ("NVLink" in found.description) == ("Pcie" in call)


def test_one_card_has_all_cores_near_it(machine, fake_nvml):
    library = fake.four_v100_sxm2()
    fake_nvml(library)
    near = {
        address(card): (n // 2, f"{8 * (n // 2)}-{8 * (n // 2) + 7}")
        for n, card in enumerate(library.cards)
    }
    root = machine({0: "0-7", 1: "8-15"}, cards=near)
    found = alone(cards_of(library)[2], root)
    assert ranges(found.cpus) == "8-15"
    assert f"PCI {address(library.cards[2])}, NUMA node 1" in found.description
    assert found.description.endswith("CPUs 8-15 of NUMA node 1")


def test_one_cpu_is_all_of_it_and_not_bound(machine):
    """A quota of its control group may allow fewer cores than the mask has: threads may wander."""
    root = machine({0: "0-3", 1: "4-7"})
    write(root / "sys/fs/cgroup/cpu.max", "400000 100000")
    found = alone(CPU, root)
    assert found.cpus == ()
    assert found.description == "cpu, CPUs 0-7 of NUMA node 0 and 1"


def test_addresses_and_ranges_are_written_as_the_kernel_does():
    assert sysfs_address("00000000:3B:00.0") == "0000:3b:00.0"
    assert ranges([8, 0, 1, 2, 3]) == "0-3,8"
    assert cpu_list("0-3,8\n") == {0, 1, 2, 3, 8}
    assert cpu_list("") == frozenset()


def test_binding_binds_all_threads():
    mask = os.sched_getaffinity(0)
    try:
        bind({min(mask)})
        assert os.sched_getaffinity(0) == {min(mask)}
    finally:
        bind(mask)
    assert os.sched_getaffinity(0) == mask


def test_binding_to_nothing_leaves_a_process_alone():
    mask = os.sched_getaffinity(0)
    bind(())
    assert os.sched_getaffinity(0) == mask


def test_this_machine_has_a_place():
    (place,) = placement.places([CPU], 1)
    assert set(place.cpus) <= os.sched_getaffinity(0)
