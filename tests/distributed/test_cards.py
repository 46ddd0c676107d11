"""Worlds of cards, none of which is here: which device each process has, and who waits for whom."""

import dataclasses
from types import SimpleNamespace

import pytest
from fakes import measurements as made
from fakes.settings import make_settings

from benchrack.distributed import rank, world
from benchrack.distributed.messages import WorldSetup
from benchrack.distributed.part import WorldPart
from benchrack.execution.messages import Setup
from benchrack.machine import placement
from benchrack.pytest_plugin import executors, opening
from benchrack.vocabulary.devices import Device

torch = pytest.importorskip("torch")

CARDS = tuple(
    Device(kind="cuda", index=index, name="Tesla P4", uuid=f"GPU-{index}") for index in range(4)
)
SETUP = Setup(settings=make_settings(), device=CARDS[0], cache="", idle={"gpu": "of one"})


class Executor:
    """Measures nothing, and notes what was asked of it."""

    def __init__(self, log, name, setup=None):
        self.log, self.name, self.setup, self.running = log, name, setup, True

    def run(self, case, progress, *, fresh=False):
        self.log.append(f"{self.name} runs x{case.device_count}")

    def ask(self, case, progress):
        self.run(case, progress)

    def close(self):
        self.running = False
        self.log.append(f"{self.name} ends")


@pytest.fixture
def cards(monkeypatch):
    """A world of four cards: its log, and its launchers as they come."""
    log, launchers = [], []

    def launch(setup, **options):
        launchers.append(Executor(log, f"launcher {len(launchers) + 1}", setup))
        return launchers[-1]

    monkeypatch.setattr(world, "Worker", launch)
    idle = {count: {"gpu": f"of {count}"} for count in (2, 4)}
    built = world.World(SETUP, CARDS, Executor(log, "worker"), idle)
    yield SimpleNamespace(world=built, log=log, launchers=launchers)
    built.close()


def case(count):
    return made.case(device_count=count)


def test_whoever_waits_with_a_card_in_hand_makes_room(cards):
    """A process that waits on a card would be a stranger to those that measure on it."""
    for count in (1, 2, 2, 1):
        cards.world.run(case(count))
    assert cards.log == [
        "worker runs x1",
        "worker ends",
        "launcher 1 runs x2",
        "launcher 1 runs x2",
        "launcher 1 ends",
        "worker runs x1",
    ]


def test_each_process_has_a_card_and_the_world_the_idle_power_of_its_own(cards):
    for count in (2, 4):
        cards.world.run(case(count))
    for launcher, count in zip(cards.launchers, (2, 4), strict=True):
        assert (launcher.setup.part.size, launcher.setup.part.local_size) == (count, count)
        assert [place.device for place in launcher.setup.places] == list(CARDS[:count])
        assert launcher.setup.idle == {"gpu": f"of {count}"}


def test_idle_power_is_measured_for_each_number_of_cards(monkeypatch):
    opened = []

    def open_meters(meters, devices):
        opened.append([str(device) for device in devices])
        return SimpleNamespace(meters=len(devices), close=lambda: None)

    monkeypatch.setattr(executors, "open_meters", open_meters)
    monkeypatch.setattr(executors, "measure_idle", lambda meters: f"of {meters}")
    bench = SimpleNamespace(device=CARDS[0], registry=SimpleNamespace(meters={}))
    found = executors._idle(bench, CARDS, {1, 2, 4, 8})
    assert found == {2: "of 2", 4: "of 4"}
    assert opened == [["cuda:0", "cuda:1"], [str(card) for card in CARDS]]


def test_cards_of_a_world_are_compared_by_their_names():
    """As many as the largest case takes; how many there are is each node's own."""
    other = Device(kind="cuda", index=4, name="Tesla P40")
    facts = {"cpu": "Xeon"}
    for devices, found in (
        (CARDS, ["Tesla P4"]),
        (CARDS[:1], ["Tesla P4"]),
        ((*CARDS[:1], other), ["Tesla P4", "Tesla P40"]),
        ((*CARDS[:2], other), ["Tesla P4"]),
        ((Device(kind="cpu", name="cpu"),), ["Xeon"]),
    ):
        assert opening._hardware(facts, devices, 2, [case(1), case(4)]) == found


@dataclasses.dataclass
class Blank:
    """A bench that measures nothing."""

    progress: object = None
    ranks: object = None


class Enough(Exception):
    """Ends a process where it would wait for its first case."""


@pytest.fixture
def served(monkeypatch):
    """`served(local_rank)` is what a process of two is bound to and measures with."""

    def serve(local_rank):
        found = SimpleNamespace()
        monkeypatch.setattr(placement, "bind", lambda cpus: setattr(found, "cpus", cpus))
        monkeypatch.setattr(
            torch.cuda, "set_device", lambda index: setattr(found, "current", index)
        )

        def bench_of(setup, device, metered):
            found.device, found.metered = device, list(metered)
            return Blank()

        def next_case():
            raise Enough

        monkeypatch.setattr(rank, "bench_of", bench_of)
        monkeypatch.setattr(rank, "_join", lambda part, rank: SimpleNamespace(barrier=lambda: None))
        part = WorldPart(
            size=2, local_size=2, folder="", run_id="", limit_s=1, join_limit_s=1, asked_at=0
        )
        places = tuple(
            placement.Place(device=card, cpus=(card.index,), description="") for card in CARDS[:2]
        )
        setup = WorldSetup.of(SETUP, part=part, places=places)
        launcher = SimpleNamespace(send=lambda message: None, next=next_case)
        with pytest.raises(Enough):
            rank._serve(setup, local_rank, launcher)
        return found

    return serve


def test_a_process_measures_on_its_own_card(served):
    found = served(1)
    assert (found.device, found.current, found.cpus) == (CARDS[1], 1, (1,))
    assert found.metered == []


def test_the_first_process_of_a_machine_meters_all_of_its_cards(served):
    assert served(0).metered == list(CARDS[:2])


def test_a_torch_that_can_not_use_cards_is_its_own_backends_to_tell(monkeypatch):
    """Of the CPU, say, beside an ONNX Runtime that has CUDA."""

    def fail(index):
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr(torch.cuda, "set_device", fail)
    rank._choose(1)
