"""What a batch is made of, and whether `synchronize` waits: on a device whose times are known."""

import numpy as np
import pytest
from fakes import laboratory as lab

from benchrack.timing.parts import BATCHES, LEAST_BATCHES, parts_of, unsynchronised_share

IMAGES = np.ones((4, *lab.SHAPE), np.float32)


def session(cls=lab.Session, **behaviour):
    clock = lab.Clock()
    made = cls(engine=lab.ENGINE, loaded=lab.load("auto", None), clock=clock, **behaviour)
    return made, clock


def test_parts_are_timed_apart():
    made, clock = session(copy_in_s=0.002, launch_s=0.001, copy_out_s=0.0005)
    parts = parts_of(made, [IMAGES], clock)
    assert parts.copy_in_s == pytest.approx(0.002)
    assert parts.compute_s == pytest.approx(0.011)
    assert parts.copy_out_s == pytest.approx(0.0005)


def test_parts_are_medians():
    """One batch in five takes a hundred times as long."""
    made, clock = session(cost=lambda index: 1.0 if index % 5 == 0 else 0.010)
    assert parts_of(made, [IMAGES], clock).compute_s == pytest.approx(0.010)


@pytest.mark.parametrize(("cost_s", "batches"), [(0.010, BATCHES), (0.4, 3), (20.0, LEAST_BATCHES)])
def test_parts_of_slow_batches_are_of_fewer(cost_s, batches):
    run = []
    made, clock = session(cost=lambda index: run.append(index) or cost_s)
    parts_of(made, [IMAGES], clock)
    assert len(run) == batches


def test_nothing_is_left_by_a_session_that_waits():
    made, clock = session(copy_out_s=0.003)
    assert unsynchronised_share(made, [IMAGES], 0.010, 0.1, clock) == pytest.approx(0)


def test_a_session_that_waits_is_tried_once():
    run = []
    made, clock = session(cost=lambda index: run.append(index) or 0.020)
    unsynchronised_share(made, [IMAGES], 0.020, 0.1, clock)
    assert len(run) == 5


@pytest.mark.parametrize(("batch_s", "batches"), [(1e-6, 16), (0.05, 2), (3.0, 1), (0.0, 16)])
def test_a_try_is_short(batch_s, batches):
    run = []
    made, clock = session(cost=lambda index: run.append(index) or batch_s)
    unsynchronised_share(made, [IMAGES], batch_s, 0.1, clock)
    assert len(run) == batches


def test_what_is_left_is_a_share_of_all():
    """Of 16 batches of 10 ms, launched in 1 ms each, the first is done when the second is launched:
    160 ms of device time less what passed while launching."""
    made, clock = session(waits=False, launch_s=0.001)
    assert unsynchronised_share(made, [IMAGES], 0.001, 0.1, clock) == pytest.approx(145 / 161)


def test_a_synchronize_that_forgets_the_last_batch():
    """As one that waits for another stream than the last batch's: a share, not all."""

    class Forgetful(lab.Session):
        def synchronize(self):
            self.clock.now = max(self.clock.now, self._due - 0.010)

    made, clock = session(Forgetful)
    assert unsynchronised_share(made, [IMAGES], 0.025, 0.1, clock) == pytest.approx(1 / 4)
