"""Energy of NVIDIA cards: by the cards' own counter from Volta on, else by sampled power.

NVML does not say how often a card renews a value, so that is observed when the meter is opened.
A counter's edges are dated by its ticks: waiting for a new value before the window, and after it,
narrows what a counter of 0.1 s leaves unknown to some milliseconds.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from benchrack.api import (
    Conditions,
    Device,
    Meter,
    Method,
    Reading,
    Tick,
    Trace,
    UnsupportedError,
    WaitableClock,
    hookimpl,
    minimum_window_s,
    nvml,
    total,
)
from benchrack.plugins.meters.nvml_card import Card

# Twenty samples a second where they make the energy, ten where they accompany a counter.
SAMPLED_PERIOD_S = 0.05
COUNTER_PERIOD_S = 0.1

POLL_S = 0.005  # how finely a tick is looked for
OBSERVED_TICKS = 4
# How long the ticks are looked for: when the meter is opened, and at the edges of a window (there
# longer than a period, where that is longer).
OPENING_LIMIT_S = 2.0
TICK_LIMIT_S = 0.5


class NvmlMeter:
    """Some cards, watched together. All are read by one method: the counter, if each has one."""

    name = "nvml"

    def __init__(self, library: Any, devices: Sequence[Device], clock: WaitableClock) -> None:
        self.library, self.clock = library, clock
        self.cards = [Card(library, _handle(library, device), device, clock) for device in devices]
        self.devices = tuple(card.label for card in self.cards)
        self.method: Method = "counter" if all(c.has_counter for c in self.cards) else "sampled"
        self.period_s = COUNTER_PERIOD_S if self.method == "counter" else SAMPLED_PERIOD_S
        reads = [card.ticking(self.method) for card in self.cards]
        seen = watch(reads, OBSERVED_TICKS, clock, OPENING_LIMIT_S)
        for card, ticks in zip(self.cards, seen, strict=True):
            card.observe(ticks, OBSERVED_TICKS, self.method, OPENING_LIMIT_S)

    @property
    def sensor_period_s(self) -> float:
        """How long a value stands, and over how long it averages, of the slowest card."""
        return max(card.sensor_period_s for card in self.cards)

    def begin(self) -> None:
        for card in self.cards:
            card.reset()
        if self.method == "counter":
            for card, ticks in zip(self.cards, self._edge_ticks(), strict=True):
                card.first = ticks[0] if ticks else card.undated_tick(card.counter_mj())

    def sample(self) -> None:
        for card in self.cards:
            card.sample()

    def end(self, start_s: float, stop_s: float) -> Sequence[Reading]:
        for card in self.cards:
            card.sample_conditions()  # a short window may have had them at its start only
        if self.method == "counter":
            shown = [card.counter_mj() for card in self.cards]
            undated = [c.undated_tick(mj) for c, mj in zip(self.cards, shown, strict=True)]
            seen = self._edge_ticks(shown)
            for card, last, ticks in zip(self.cards, undated, seen, strict=True):
                dated = ticks and card.observed
                card.last = card.tick_before(ticks[0], last) if dated else last
        else:
            for card in self.cards:
                card.stood()
        return (self._reading(start_s, stop_s),)

    def close(self) -> None:
        with suppress(self.library.NVMLError):  # as after the loss of a card
            self.library.nvmlShutdown()

    def _edge_ticks(self, shown: Sequence[int | None] | None = None) -> list[list[Tick]]:
        """The next new count of each card at an edge of a window, in J, after what it has shown."""
        reads = [card.counter_mj for card in self.cards]
        limit_s = max(TICK_LIMIT_S, 1.5 * self.sensor_period_s)
        return watch(reads, 1, self.clock, limit_s, shown)

    def _reading(self, start_s: float, stop_s: float) -> Reading:
        results = [card.result(self.method, start_s, stop_s) for card in self.cards]
        window_s = stop_s - start_s
        samples = min((len(card.power_w) for card in self.cards), default=0)
        return Reading(
            meter=self.name,
            domain="accelerator",
            devices=self.devices,
            method=self.method,
            window_s=window_s,
            energy_j=total([r.energy_j for r in results]),
            uncertainty_j=total([r.uncertainty_j for r in results]),
            sampling_period_s=window_s / (samples - 1) if samples > 1 else None,
            sensor_period_s=self.sensor_period_s,
            sensor_period_observed=all(card.observed for card in self.cards),
            minimum_window_s=minimum_window_s(self),
            energy_by_device_j=tuple(r.energy_j for r in results),
            sampled_energy_j=total([r.sampled_energy_j for r in results]),
            faults=tuple(fault for card in self.cards for fault in card.faults()),
            traces=tuple(
                Trace(times_s=tuple(t - start_s for t in c.times_s), power_w=tuple(c.power_w))
                for c in self.cards
            ),
            conditions=_conditions(self.cards),
        )


def watch(
    reads: Sequence[Callable[[], int | None]],
    count: int,
    clock: WaitableClock,
    limit_s: float,
    shown: Sequence[int | None] | None = None,
) -> list[list[Tick]]:
    """Poll values in thousandths until each was renewed `count` times, or the limit has passed.

    A tick lies between two polls: it is dated to the middle, and known to half of that. What
    returns None is not asked again. `shown` are values that were read just before.
    """
    shown = [read() for read in reads] if shown is None else list(shown)
    ticks: list[list[Tick]] = [[] for _ in reads]
    before_s = clock()
    deadline_s = before_s + limit_s
    waiting = {i for i, value in enumerate(shown) if value is not None}
    while waiting and before_s < deadline_s:
        clock.sleep(POLL_S)
        now_s = clock()
        for i in sorted(waiting):
            value = reads[i]()
            if value is not None and value != shown[i]:
                middle_s, half_s = (before_s + now_s) / 2, (now_s - before_s) / 2
                ticks[i].append(Tick(middle_s, value / 1000, half_s))
                shown[i] = value
            if value is None or len(ticks[i]) == count:
                waiting.remove(i)
        before_s = now_s
    return ticks


def _conditions(cards: Sequence[Card]) -> Conditions:
    def over_all(name: str, summary: Callable[[Iterable[float]], float]) -> float | None:
        values = list(itertools.chain.from_iterable(c.seen.get(name, ()) for c in cards))
        return summary(values) if values else None

    starts = [c.seen["temperature"][0] for c in cards if c.seen.get("temperature")]
    bits = 0
    for card in cards:
        bits |= card.throttled
    return Conditions(
        sm_clock_mhz_min=over_all("sm_clock", min),
        sm_clock_mhz_median=over_all("sm_clock", statistics.median),
        memory_clock_mhz_min=over_all("memory_clock", min),
        memory_clock_mhz_median=over_all("memory_clock", statistics.median),
        temperature_start_c=max(starts, default=None),
        temperature_max_c=over_all("temperature", max),
        throttle_reasons=nvml.throttle_reasons(bits),
        power_limit_w=over_all("power_limit", min),
        memory_used_peak_gib=over_all("memory", max),
        utilisation_median=over_all("utilisation", statistics.median),
    )


def open_nvml(devices: Sequence[Device], clock: WaitableClock) -> NvmlMeter:
    """Watch the CUDA devices among these. Raises UnsupportedError."""
    cuda = [device for device in devices if device.kind == "cuda"]
    if not cuda:
        raise UnsupportedError("this run uses no NVIDIA card")
    library = nvml.load()
    try:
        return NvmlMeter(library, cuda, clock)
    except BaseException as error:
        with suppress(library.NVMLError):
            library.nvmlShutdown()
        if isinstance(error, library.NVMLError):
            raise UnsupportedError(nvml.explain(library, error)) from error
        raise


def _handle(library: Any, device: Device) -> Any:
    """NVML's handle of a CUDA device: by its UUID, since CUDA may count cards in another order."""
    if device.uuid:
        return library.nvmlDeviceGetHandleByUUID(device.uuid)
    return library.nvmlDeviceGetHandleByIndex(device.index)


@hookimpl
def benchrack_meters() -> Iterable[Meter]:
    summary = "power, energy and conditions of NVIDIA cards, as their own sensors tell"
    return [Meter(name="nvml", summary=summary, open=open_nvml)]
