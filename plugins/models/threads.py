"""How many threads PyTorch computes with, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one() -> Iterator[None]:
    """One thread: the same order of summation on machines of any size, and no waiting for others.

    PyTorch's threads spin at the end of every layer; where other processes take the cores
    meanwhile, a hundred small layers in two threads take fifty times as long as in one.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
