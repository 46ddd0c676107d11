"""The outer ring that pytest loads: options, parametrisation, fixture, summary. It imports all;
nothing imports it.

PYTEST_DONT_REWRITE: the entry point has imported this package before pytest could.
"""

# `-p benchrack.pytest_plugin` loads this package, and pytest then what it names.
pytest_plugins = ["benchrack.pytest_plugin.plugin"]
