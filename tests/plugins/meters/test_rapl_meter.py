"""RAPL through a small powercap tree: packages, DRAM, wraps, permission, and what is absent."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.power import FakeClock

from benchrack.energy.metering import measure_idle, open_meters, window
from benchrack.errors import UnsupportedError
from benchrack.plugins.meters import rapl
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.meters import Meter

RANGE_UJ = 262_143_328_850


@pytest.fixture
def powercap(tmp_path):
    """Two packages, the first with core and DRAM, and the decoys that a real machine has."""
    zone(tmp_path / "intel-rapl:0", "package-0", 5_000_000)
    zone(tmp_path / "intel-rapl:0/intel-rapl:0:0", "core", 0)
    zone(tmp_path / "intel-rapl:0/intel-rapl:0:1", "dram", 7_000_000)
    zone(tmp_path / "intel-rapl:1", "package-1", RANGE_UJ - 1_000_000)
    zone(tmp_path / "intel-rapl:2", "psys", 1)
    zone(tmp_path / "intel-rapl-mmio:0", "package-0", 1)
    (tmp_path / "intel-rapl:0:1").symlink_to(tmp_path / "intel-rapl:0/intel-rapl:0:1")
    (tmp_path / "dtpm").mkdir()
    return tmp_path


def zone(folder, name, energy_uj, range_uj=RANGE_UJ):
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")


def use(folder, energy_uj):
    """The package uses so much energy; its counter starts again behind its range."""
    counter = folder / "energy_uj"
    counter.write_text(str((int(counter.read_text()) + energy_uj) % RANGE_UJ))


def open_meter(root, clock=None):
    return rapl.open_rapl([Device(kind="cpu")], clock or FakeClock(), root)


def test_packages_and_dram_are_found(powercap):
    meter = open_meter(powercap)
    assert meter.devices == ("package-0", "package-0 dram", "package-1")


def test_energy_by_domain_across_a_wrap(powercap):
    clock = FakeClock()
    meter = open_meter(powercap, clock)
    with window([meter], clock, threaded=False) as seen:
        use(powercap / "intel-rapl:0", 80_000_000)
        use(powercap / "intel-rapl:0/intel-rapl:0:1", 6_000_000)
        use(powercap / "intel-rapl:1", 90_000_000)  # wraps after 1 J
        clock.sleep(2.0)
    cpu, dram = seen.readings
    assert (cpu.domain, dram.domain) == ("cpu", "dram")
    assert cpu.energy_j == pytest.approx(170)
    assert cpu.energy_by_device_j == pytest.approx((80, 90))
    assert cpu.average_power_w == pytest.approx(85)
    assert dram.energy_j == pytest.approx(6)
    assert (cpu.method, cpu.sensor_period_s, cpu.window_s) == ("counter", 0.001, 2.0)
    # A millisecond of the power that was seen, at both edges.
    assert cpu.uncertainty_j == pytest.approx(2 * 0.001 * 85)
    assert not cpu.faults


def test_a_long_window_may_wrap_at_each_sample(powercap):
    clock = FakeClock()
    meter = open_meter(powercap, clock)
    with window([meter], clock, threaded=False) as seen:
        for _ in range(5):
            use(powercap / "intel-rapl:1", RANGE_UJ - 1)
            clock.sleep(1.0)
            seen.sampler.sample_due()
    assert seen.readings[0].energy_by_device_j[1] == pytest.approx(5 * (RANGE_UJ - 1) / 1e6)


def test_idle_power_of_both_domains(powercap):
    class Machine(FakeClock):
        def sleep(self, seconds):
            use(powercap / "intel-rapl:0", int(30e6 * seconds))
            use(powercap / "intel-rapl:0/intel-rapl:0:1", int(4e6 * seconds))
            super().sleep(seconds)

    clock = Machine()
    idle = measure_idle([open_meter(powercap, clock)], clock, threaded=False)
    assert idle["cpu"].power_w == pytest.approx(30, rel=1e-3)
    assert idle["dram"].power_w == pytest.approx(4, rel=1e-3)
    assert idle["cpu"].spread_w == pytest.approx(0, abs=1e-2)


def test_a_counter_that_vanishes_is_reported(powercap):
    clock = FakeClock()
    meter = open_meter(powercap, clock)
    with window([meter], clock, threaded=False) as seen:
        clock.sleep(1.0)
        (powercap / "intel-rapl:1/energy_uj").unlink()
    cpu, dram = seen.readings
    assert cpu.energy_j is None
    assert "package-1 can't be read any more" in cpu.faults[0]
    assert dram.energy_j == 0.0


@pytest.mark.parametrize("name", ["energy_uj", "max_energy_range_uj"])
def test_only_root_may_read(powercap, monkeypatch, name):
    """Says which file, why, and what to do; the tests may run as root, so the refusal is forced."""
    read_text = Path.read_text

    def refuse(path, *args, **kwargs):
        if path.name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", refuse)
    meter = Meter(name="rapl", summary="", open=lambda d, c: rapl.open_rapl(d, c, powercap))
    opened = open_meters([meter], [], FakeClock())
    assert opened.meters == ()
    why = opened.absent["rapl"]
    assert f"intel-rapl:0/{name} may be read by root only" in why
    assert f"chmod a+r {powercap}/intel-rapl:*/{name}" in why


@pytest.mark.parametrize("folder", ["", "absent"])
def test_a_machine_without_rapl(tmp_path, folder):
    with pytest.raises(UnsupportedError, match="no RAPL packages"):
        open_meter(tmp_path / folder)


def test_a_counter_that_is_no_number(powercap):
    (powercap / "intel-rapl:0/energy_uj").write_text("")
    with pytest.raises(UnsupportedError, match="can't be read"):
        open_meter(powercap)


def test_the_hook_registers_it():
    (meter,) = rapl.benchrack_meters()
    assert (meter.name, meter.open) == ("rapl", rapl.open_rapl)
