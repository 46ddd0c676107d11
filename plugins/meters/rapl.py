"""Energy of CPU packages and DRAM: RAPL's counters, as the Linux kernel's powercap shows them.

The kernel (Documentation/power/powercap) shows each domain as a folder with `name`, `energy_uj`
(microjoules, starting again at zero behind `max_energy_range_uj`); packages are `intel-rapl:N`, on
AMD too, and DRAM is a folder below its package. The counters are renewed about every millisecond
(Intel's Software Developer's Manual, volume 3B, "RAPL Interfaces"). They count all that runs on
the package, other programs too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchrack.api import (
    Device,
    Domain,
    Meter,
    Method,
    Reading,
    UnsupportedError,
    WaitableClock,
    hookimpl,
    integrals,
    minimum_window_s,
)

ROOT = Path("/sys/class/powercap")
PERIOD_S = 0.5  # often enough that no counter wraps twice: 262 kJ take minutes at 1 kW
SENSOR_PERIOD_S = 0.001


class Zone:
    """One counter: what it has counted since the window began, and when that was read."""

    def __init__(self, folder: Path, label: str, domain: Domain, clock: WaitableClock) -> None:
        self.label, self.domain, self.clock = label, domain, clock
        self._counter = folder / "energy_uj"
        self._range_uj = int((folder / "max_energy_range_uj").read_text())
        self.read()  # whether it may be read is known before anything is measured
        self.reset()

    def read(self) -> int:
        return int(self._counter.read_text())

    def reset(self) -> None:
        self.times_s: list[float] = []
        self.energy_j: list[float] = []
        self.fault: str | None = None
        self._last_uj: int | None = None

    def sample(self) -> None:
        if self.fault is not None:
            return
        try:
            counted_uj, now_s = self.read(), self.clock()
        except (OSError, ValueError) as error:
            self.fault = f"{self.label} can't be read any more: {error}"
            return
        before_j = self.energy_j[-1] if self.energy_j else 0.0
        before_uj = counted_uj if self._last_uj is None else self._last_uj
        step_uj = integrals.wrapped_difference(before_uj, counted_uj, self._range_uj)
        self.times_s.append(now_s)
        self.energy_j.append(before_j + step_uj / 1e6)
        self._last_uj = counted_uj

    def between(self, start_s: float, stop_s: float) -> float | None:
        """Energy between two times, in joules; the edges lie between samples."""
        if self.fault is not None or len(self.times_s) < 2:
            return None
        at_start_j = integrals.value_at(self.times_s, self.energy_j, start_s)
        return integrals.value_at(self.times_s, self.energy_j, stop_s) - at_start_j

    def highest_power_w(self) -> float:
        """The highest power between two samples."""
        steps = zip(self.times_s, self.energy_j, self.times_s[1:], self.energy_j[1:], strict=False)
        return max(((e1 - e0) / (t1 - t0) for t0, e0, t1, e1 in steps if t1 > t0), default=0.0)


class RaplMeter:
    """All packages of the machine, and their DRAM where it is counted."""

    name = "rapl"
    method: Method = "counter"
    period_s = PERIOD_S
    sensor_period_s = SENSOR_PERIOD_S

    def __init__(self, zones: Sequence[Zone]) -> None:
        self.zones = zones
        self.devices = tuple(zone.label for zone in zones)

    def begin(self) -> None:
        for zone in self.zones:
            zone.reset()

    def sample(self) -> None:
        for zone in self.zones:
            zone.sample()

    def end(self, start_s: float, stop_s: float) -> Sequence[Reading]:
        domains: tuple[Domain, ...] = ("cpu", "dram")
        return [
            self._reading(domain, zones, start_s, stop_s)
            for domain in domains
            if (zones := [zone for zone in self.zones if zone.domain == domain])
        ]

    def _reading(
        self, domain: Domain, zones: Sequence[Zone], start_s: float, stop_s: float
    ) -> Reading:
        energies_j = tuple(zone.between(start_s, stop_s) for zone in zones)
        known_j = [j for j in energies_j if j is not None]
        complete = len(known_j) == len(energies_j)
        # What each edge can miss is what was used since the counter was last renewed.
        edge_j = sum(zone.highest_power_w() for zone in zones) * SENSOR_PERIOD_S
        samples = len(zones[0].times_s)
        return Reading(
            meter=self.name,
            domain=domain,
            devices=tuple(zone.label for zone in zones),
            method=self.method,
            window_s=stop_s - start_s,
            energy_j=sum(known_j) if complete else None,
            uncertainty_j=2 * edge_j if complete else None,
            sampling_period_s=(stop_s - start_s) / (samples - 1) if samples > 1 else None,
            sensor_period_s=SENSOR_PERIOD_S,
            minimum_window_s=minimum_window_s(self),
            energy_by_device_j=energies_j,
            faults=tuple(zone.fault for zone in zones if zone.fault is not None),
        )

    def close(self) -> None:
        """There is nothing to give back."""


def open_rapl(devices: Sequence[Device], clock: WaitableClock, root: Path = ROOT) -> RaplMeter:
    """Watch the host's packages and DRAM, whatever the devices. Raises UnsupportedError."""
    packages = sorted(root.glob("intel-rapl:*[0-9]")) if root.is_dir() else []
    packages = [p for p in packages if _name(p).startswith("package")]
    if not packages:
        raise UnsupportedError(
            f"{root} shows no RAPL packages: a virtual machine, a container that hides them, a "
            "CPU without RAPL, or the kernel module intel_rapl_msr is not loaded"
        )
    try:
        return RaplMeter([zone for package in packages for zone in _zones(package, clock)])
    except PermissionError as error:
        raise UnsupportedError(
            f"{error.filename} may be read by root only, as on every Linux since 5.10 "
            "(CVE-2020-8694). Let an administrator run "
            f"'chmod a+r {root}/intel-rapl:*/{Path(error.filename).name}' after each start of the "
            "machine, or measure as root"
        ) from error
    except (OSError, ValueError) as error:
        raise UnsupportedError(f"RAPL below {root} can't be read: {error}") from error


def _zones(package: Path, clock: WaitableClock) -> Iterable[Zone]:
    yield Zone(package, _name(package), "cpu", clock)
    for folder in sorted(package.glob("intel-rapl:*")):
        if _name(folder) == "dram":
            yield Zone(folder, f"{_name(package)} dram", "dram", clock)


def _name(folder: Path) -> str:
    try:
        return (folder / "name").read_text().strip()
    except OSError:
        return ""


@hookimpl
def benchrack_meters() -> Iterable[Meter]:
    summary = "energy of CPU packages and DRAM, as the CPU counts it"
    return [Meter(name="rapl", summary=summary, open=open_rapl)]
