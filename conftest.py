"""For all tests, also those of docstrings and pages: what the core alone cannot run is left out."""

pytest_plugins = ["without_extras"]
