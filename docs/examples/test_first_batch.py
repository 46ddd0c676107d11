"""How long until the first answer? The suite of first_batch.py."""

import pytest


@pytest.mark.first_batch
def test_first_batch(case, measured):
    measured(case)
