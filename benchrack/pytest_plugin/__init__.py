"""The outer ring that pytest loads: options, parametrisation, fixture, summary. It imports all;
nothing imports it.
"""

# `-p benchrack.pytest_plugin` loads this package, and pytest then what it names.
pytest_plugins = ["benchrack.pytest_plugin.plugin"]
