"""In a checkout pytest needs Benchrack to be installed; everything else is in its plugin."""

from importlib.util import find_spec

import pytest

if find_spec("benchrack") is None or find_spec("benchrack.suites") is None:
    raise pytest.UsageError(
        "Benchrack is not installed in this environment. Run: pip install -e '.[all]'"
    )
