"""What a scenario needs of a backend: a session for inference, one for training, or nothing."""

import dataclasses

import pytest
from fakes import laboratory as lab, measurements as made
from fakes.scenarios import THROUGHPUT

from benchrack.api import Axis, Findings, Metric, Scenario
from benchrack.cases import sweep
from benchrack.errors import UnsupportedError
from benchrack.execution.running import run_case
from benchrack.records.record import from_record, to_record


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What training gave."""

    last_loss: float


@dataclasses.dataclass
class Training:
    """A training session whose loss halves at each step of 20 ms."""

    engine: object
    loaded: object
    clock: object
    loss: float = 8.0
    closed: bool = False

    def place(self, images, labels):
        return images, labels

    def step(self, placed):
        self.clock.now += 0.020
        self.loss /= 2
        return self.loss

    def synchronize(self):
        pass

    def fetch(self, loss):
        return float(loss)

    def close(self):
        self.closed = True


def train(bench, case, session):
    batch = next(bench.data.measured(case))
    placed = session.place(batch.images, batch.labels)
    started = bench.clock()
    losses = [session.fetch(session.step(placed)) for _ in range(3)]
    session.synchronize()
    step_s = (bench.clock() - started) / 3
    return Findings(seconds_per_batch=(step_s,), result=Steps(last_loss=losses[-1]))


def idle(bench, case, session):
    assert session is None
    started = bench.clock()
    bench.clock.sleep(case.axes["milliseconds"] / 1e3)
    seconds = bench.clock() - started
    return Findings(seconds_per_batch=(seconds,), result=Steps(last_loss=0.0))


LOSS = Metric(name="last_loss", unit="", better="lower")
TRAINING = dataclasses.replace(
    THROUGHPUT, name="steps", needs="training", part=Steps, measure=train, headline=LOSS
)
MILLISECONDS = Axis(name="milliseconds", field="milliseconds", kind=int, help="how long")
IDLE = Scenario(
    name="idle",
    question="how long nothing takes",
    axes=(MILLISECONDS,),
    part=Steps,
    measure=idle,
    headline=LOSS,
    cost=lambda case, settings, batch_s, images: batch_s,
    needs="nothing",
)


@pytest.fixture
def bench_of(tmp_path):
    """A bench of some backends that knows these scenarios too; the clock is the last backend's."""

    def build(backend, clock):
        bench = lab.bench(tmp_path, backend, clock=clock)
        bench.registry.provided["scenario"].update({s.name: s for s in (TRAINING, IDLE)})
        return bench

    return build


def test_a_scenario_that_trains_gets_a_training_session(bench_of):
    clock, sessions = lab.Clock(), []

    def prepare_training(request):
        loaded = request.model.load(request.weights, request.cache)
        sessions.append(Training(engine=lab.ENGINE, loaded=loaded, clock=clock))
        return sessions[-1]

    backend = dataclasses.replace(lab.backend(clock=clock), prepare_training=prepare_training)
    found = run_case(bench_of(backend, clock), made.case(scenario="steps"))
    assert found.result.last_loss == 1.0
    assert found.seconds_per_batch == (pytest.approx(0.020),)
    assert found.preparation.weights_used == "made up"
    assert sessions[0].closed


def test_a_backend_that_offers_no_training_says_so(bench_of):
    clock = lab.Clock()
    with pytest.raises(UnsupportedError, match=r"^numpy-fp32 offers no training, which steps"):
        run_case(bench_of(lab.backend(clock=clock), clock), made.case(scenario="steps"))


def test_a_scenario_without_a_model_has_axes_of_its_own_only(bench_of, tmp_path):
    clock = lab.Clock()
    bench = bench_of(lab.backend(clock=clock), clock)
    (tmp_path / "mine.toml").write_text("[idle]\nmilliseconds = [1, 20]\n")
    loaded = sweep.load("mine.toml", bench.registry.scenarios, tmp_path)
    short, long = sweep.cases(loaded, IDLE, bench.registry)
    assert (short.id, short.model, short.backend) == ("b1-x1-milliseconds1", "", "")
    found = run_case(bench, long)
    assert found.seconds_per_batch == (pytest.approx(0.020),)
    record = to_record(found)
    assert (record["axis_milliseconds"], record["engine_name"]) == (20, "idle")
    again = from_record(record, found.seconds_per_batch, bench.registry.scenarios)
    assert again == found
