"""Which process of a world failed first, and how, in words."""

import dataclasses
import signal
from pathlib import Path

import pytest

from benchrack.distributed.failures import Ended, cause, late, readable, refusal
from benchrack.distributed.part import WorldPart
from benchrack.timing.ranks import Failure

TRACEBACK = """Traceback (most recent call last):
  File "/site/benchrack/execution/running.py", line 40, in measure
    found = scenarios.measure(bench, case, session)
  File "/lab/plugin.py", line 26, in convolve
    raise ZeroDivisionError("a fault")
ZeroDivisionError: a fault
"""
# As torch words the loss of a process, with a stack that helps nobody.
LOST = """[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer
Exception raised from doWait at /pytorch/torch/csrc/distributed/c10d/TCPStore.cpp:100
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x80 (0x7fa1 in libc10.so)
frame #1: <unknown function> + 0x5ffc5b1 (0x7fa1 in libtorch_cpu.so)"""


@pytest.fixture
def part(tmp_path):
    return WorldPart(
        size=2,
        local_size=2,
        folder=str(tmp_path),
        run_id="a",
        limit_s=30,
        join_limit_s=9,
        asked_at=0.0,
    )


def log(part, local_rank, text):
    """As torch keeps it."""
    folder = Path(part.folder) / f"{part.run_id}_x1y2" / "attempt_0" / str(local_rank)
    folder.mkdir(parents=True)
    (folder / "stderr.log").write_text(text)


def failure(rank, kind, message="", details=""):
    return Failure(rank=rank, kind=kind, message=message, details=details)


def lost(local_rank):
    told = failure(local_rank, "RankLostError", LOST)
    return Ended(local_rank=local_rank, failure=told, exit_code=1)


def test_an_unforeseen_error_is_named_with_its_rank_and_place(part):
    """Though the loss that followed from it was told first."""
    told = failure(1, "ZeroDivisionError", "a fault", TRACEBACK)
    found = cause(part, [lost(0), Ended(local_rank=1, failure=told, exit_code=1)], "")
    assert found.kind == "WorkerError"
    assert found.message == (
        "rank 1 of 2: ZeroDivisionError: a fault, in convolve (plugin.py, line 26)"
    )
    assert "in convolve" in found.details


def test_an_error_of_ours_keeps_its_class(part):
    told = failure(1, "OutOfMemoryError", "3 GiB were asked for")
    found = cause(part, [Ended(local_rank=1, failure=told, exit_code=1), lost(0)], "")
    assert found.kind == "OutOfMemoryError"
    assert found.message == "rank 1 of 2: 3 GiB were asked for"


def test_pythons_own_want_of_memory_is_one_too(part):
    told = failure(0, "MemoryError", "Unable to allocate 3 GiB")
    found = cause(part, [Ended(local_rank=0, failure=told, exit_code=1)], "")
    assert found.kind == "OutOfMemoryError"
    assert found.message == "rank 0 of 2: Unable to allocate 3 GiB"


def test_a_process_that_was_killed_is_named_with_its_last_words(part):
    log(part, 1, "loading\n" + LOST + "\nabout to die\n")
    ended = [Ended(local_rank=1, exit_code=-signal.SIGKILL), lost(0)]
    found = cause(part, ended, "")
    assert found.kind == "WorkerError"
    assert "rank 1 of 2 was ended by SIGKILL, most likely by the kernel" in found.message
    assert found.message.endswith("about to die")
    assert "frame #" not in found.message


def test_a_process_that_a_library_ends_for_want_of_memory_ran_out_of_it(part):
    """As its worker would for one device: larger batches are then not tried."""
    log(part, 1, "terminate called after throwing an instance of 'std::bad_alloc'\n")
    found = cause(part, [Ended(local_rank=1, exit_code=-signal.SIGABRT), lost(0)], "")
    assert found.kind == "OutOfMemoryError"
    assert found.message.startswith("rank 1 of 2 was ended by SIGABRT: terminate called")


def test_what_torch_ended_is_not_the_cause(part):
    ended = [
        Ended(local_rank=0, exit_code=-signal.SIGTERM),
        Ended(local_rank=1, exit_code=3),
    ]
    assert cause(part, ended, "").message == "rank 1 of 2 ended with exit code 3"


def test_a_loss_alone_is_told_as_one_without_the_stack(part):
    found = cause(part, [lost(0)], "")
    assert found.kind == "RankLostError"
    assert found.message.startswith("rank 0 of 2: [/pytorch")
    assert "frame #" not in found.message


def test_processes_that_never_came_say_what_torch_says(part):
    log(part, 0, "ImportError: no module named lab\n")
    found = cause(part, [], "local rank 0: no module named lab")
    assert "2 processes were started in vain: local rank 0" in found.message
    assert found.details == "0: ImportError: no module named lab"


def test_on_several_machines_a_rank_is_named_with_its_own(part):
    second = dataclasses.replace(part, size=4, node=1, nodes=2)
    found = cause(second, [Ended(local_rank=0, exit_code=3)], "")
    assert found.message == "rank 2 of 4 on node 1 ended with exit code 3"


def test_a_refusal_of_all_names_no_rank(part):
    both = [failure(rank, "UnsupportedError", "too old a card") for rank in (0, 1)]
    assert refusal(part, both).message == "too old a card"
    assert refusal(part, both[:1]).message == "too old a card"  # the others never tried
    assert refusal(part, both).kind == "UnsupportedError"


def test_a_refusal_of_one_names_it(part):
    assert refusal(part, [failure(1, "WeightsError", "torn")]).message == "rank 1 of 2: torn"
    both = [failure(0, "WeightsError", "torn"), failure(1, "WeightsError", "gone")]
    assert refusal(part, both).message == "rank 0 of 2: torn"


WAITING = """Thread 0x00007f01 (most recent call first):
  File "/lib/python3.11/threading.py", line 327 in wait
  File "/site/benchrack/distributed/rank.py", line 190 in _read

Current thread 0x00007f02 (most recent call first):
  File "/site/torch/distributed/distributed_c10d.py", line 2810 in all_reduce
  File "/site/benchrack/distributed/rank.py", line 61 in all_reduce_max
  File "/site/benchrack/timing/rounds.py", line 90 in warm_up
  File "/site/benchrack/distributed/rank.py", line 130 in _serve
"""
HANGING = """Thread 0x00007f02 (most recent call first):
  File "/lab/plugin.py", line 19 in convolve
  File "/site/benchrack/timing/rounds.py", line 90 in warm_up
  File "/site/benchrack/distributed/rank.py", line 130 in _serve
"""


def test_the_one_that_keeps_others_waiting_is_named_with_its_place(part):
    found = late(part, {0: WAITING, 1: HANGING})
    assert found.kind == "TimeLimitError"
    assert found.message.startswith(
        "no result after 30 s: rank 1 of 2 was in convolve (plugin.py, line 19) (--set case_time"
    )
    assert "plugin.py" in found.details
    assert "distributed_c10d" not in found.details


def test_one_that_has_not_begun_is_named(part):
    assert "rank 1 of 2 had not begun" in late(part, {0: WAITING}).message


def test_all_waiting_for_each_other_is_said(part):
    assert "all wait for each other" in late(part, {0: WAITING, 1: WAITING}).message


def test_a_readable_error_has_no_stack_of_another_language():
    assert readable(LOST).splitlines() == [LOST.splitlines()[0]]
